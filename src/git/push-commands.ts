import { Problem } from '../base/problem.ts'
import type { Body } from './body.ts'
import { firstPacket } from './pkt-line.ts'
import { isRefName } from './ref-name.ts'
import type { RefUpdate } from './refs.ts'

/** What a push asks for before its pack comes, the bytes that say so, and the whole body still to be read. */
export type PushRequest = {
  updates: RefUpdate[]
  capabilities: Set<string>
  commandBytes: number
  whole: Body
}

// A line is two ids, a ref name and, in the first one, capabilities; `shallow` lines come before them.
const lineMaxBytes = 4096
const otherLines = 1000
// Whoever sends in crumbs has nobody look at each.
const looksAtMost = 16

/**
 * Reads the commands of a push: "Reference Update Request" in https://git-scm.com/docs/pack-protocol.
 * Git looks at ref names only after its hooks, and does work for each command, so what it would choke
 * on is refused here: names that are none, the same ref twice, too many. The Problem that says so comes
 * with the request in `refusal`, since a client is best told in its own protocol.
 */
export async function readPushRequest(
  body: Body,
  maxUpdates: number,
): Promise<PushRequest & { refusal: Problem | undefined }> {
  const chunks: Buffer[] = []
  const lines: Buffer[] = []
  let rest: Buffer = Buffer.alloc(0)
  for (;;) {
    const found = firstPacket(rest)
    if (found === 'malformed') throw malformed()
    if (found === 'incomplete') {
      const { value } = await body.next()
      if (!value) throw malformed()
      chunks.push(value)
      rest = Buffer.concat([rest, value])
      continue
    }
    rest = rest.subarray(found.length)
    if (found.packet.kind === 'flush') break
    if (found.packet.kind !== 'data' || found.length > lineMaxBytes) throw malformed()
    lines.push(found.packet.payload)
    if (lines.length > maxUpdates + otherLines) break
  }
  const commandBytes = sizeOf(chunks) - rest.length
  const whole = prepend(chunks, body)
  const [first = ''] = lines.map((line) => line.toString('latin1')).filter(isCommand)
  const capabilities = new Set((first.split('\0')[1] ?? '').trim().split(' '))
  try {
    const updates = toUpdates(lines, maxUpdates)
    return { updates, capabilities, commandBytes, whole, refusal: undefined }
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    return { updates: [], capabilities, commandBytes, whole, refusal: error }
  }
}

/**
 * Reads on in what a push sends after its commands, until a look at it finds something, or it is not to be waited for any
 * longer. What was found, and the whole body as it was.
 */
export async function readAhead<T>(
  { commandBytes, whole }: Pick<PushRequest, 'commandBytes' | 'whole'>,
  { look, maxBytes }: { look: (pack: Buffer) => T | undefined; maxBytes: number },
): Promise<{ found: T | undefined; whole: Body }> {
  const chunks: Buffer[] = []
  let found: T | undefined
  for (let looks = 0; looks < looksAtMost && found === undefined; looks++) {
    const { value } = await whole.next()
    if (!value) break
    chunks.push(value)
    const pack = Buffer.concat(chunks).subarray(commandBytes)
    if (pack.length > maxBytes) break
    found = look(pack)
  }
  return { found, whole: prepend(chunks, whole) }
}

function sizeOf(chunks: Buffer[]): number {
  return chunks.reduce((sum, { length }) => sum + length, 0)
}

function toUpdates(lines: Buffer[], maxUpdates: number): RefUpdate[] {
  const commands = lines.filter((line) => isCommand(line.toString('latin1')))
  if (commands.length > maxUpdates) {
    throw new Problem(
      'too_many_ref_updates',
      `A push may change at most ${maxUpdates} refs; push them in parts.`,
    )
  }
  const updates = new Map<string, RefUpdate>()
  for (const command of commands) {
    const update = toUpdate(command)
    if (updates.has(update.ref)) {
      throw new Problem('ref_name_refused', `The ref "${update.ref}" is in this push twice.`)
    }
    updates.set(update.ref, update)
  }
  return [...updates.values()]
}

function toUpdate(line: Buffer): RefUpdate {
  const end = line.indexOf(0)
  // Git takes a line end off a packet, not off a name that capabilities follow.
  const text = end === -1 ? decode(line).replace(/\n$/, '') : decode(line.subarray(0, end))
  const [, before = '', after = '', ref = ''] = /^([0-9a-f]+) ([0-9a-f]+) (.*)$/s.exec(text) ?? []
  if (before.length === 64 && after.length === 64) {
    throw new Problem('malformed_git_request', 'Repositories here are of the object format SHA-1.')
  }
  if (before.length !== 40 || after.length !== 40) throw malformed()
  if (!isRefName(ref)) {
    throw new Problem('ref_name_refused', `${JSON.stringify(ref)} is not a ref name.`)
  }
  return { ref, before, after }
}

function isCommand(line: string): boolean {
  return !line.startsWith('shallow ')
}

function decode(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw new Problem('ref_name_refused', 'A ref name in this push is not UTF-8.')
  }
}

async function* prepend(chunks: Buffer[], rest: Body): Body {
  yield* chunks
  yield* rest
}

function malformed(): Problem {
  return new Problem(
    'malformed_git_request',
    "The request does not begin as a push of Git's protocol.",
  )
}
