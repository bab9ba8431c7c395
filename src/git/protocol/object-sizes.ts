import type { ObjectReader } from '../objects/object-reader.ts'
import { flushPacket, packet } from './pkt-line.ts'
import { parseCommand } from './requests.ts'

// Parsing blocks the event loop, and other requests wait for the same reader.
const maxLines = 4096

/**
 * Builds git's response to an `object-info` request for the sizes of objects, byte for byte:
 * https://git-scm.com/docs/protocol-v2 Undefined when git must respond: when an object is missing, and to anything that
 * the protocol's documentation does not cover. Without this function, git responds to all.
 */
export async function answerObjectInfo(
  reader: ObjectReader,
  input: Buffer,
): Promise<Buffer | undefined> {
  const ids = requestedIds(input)
  if (!ids) return undefined
  const found = await Promise.all(ids.map(reader.find))
  const lines = found.map((object, index) =>
    // A part of an id would be found, too.
    object && object.id === ids[index] ? packet(`${object.id} ${object.bytes}`) : undefined,
  )
  const isComplete = lines.every((line) => line !== undefined)
  return isComplete ? Buffer.concat([packet('size'), ...lines, flushPacket]) : undefined
}

function requestedIds(input: Buffer): string[] | undefined {
  const command = parseCommand(input, maxLines)
  if (command?.name !== 'object-info' || !command.args.includes('size')) return undefined
  const ids: string[] = []
  for (const line of command.args) {
    const [, id] = /^oid ([0-9a-f]{40,})$/.exec(line) ?? []
    if (id !== undefined) ids.push(id)
    else if (line !== 'size') return undefined
  }
  return ids.length > 0 ? ids : undefined
}
