import type { RefCache } from '../refs/ref-cache.ts'
import {
  bytesOf,
  joined,
  linesOf,
  noTags,
  type Peeled,
  type RefValue,
} from '../refs/ref-snapshot.ts'
import { firstPacket, flushPacket } from './pkt-line.ts'

/** An `ls-refs` request: https://git-scm.com/docs/protocol-v2 Prefixes are in latin1. */
type ListRequest = { peel: boolean; symrefs: boolean; unborn: boolean; prefixes: string[] }

// Clients send six prefixes for each ref that they request by name.
const maxPrefixes = 4096
// Parsing blocks the event loop.
const maxLines = maxPrefixes + 100
const prefixMark = 'ref-prefix '

/**
 * Builds git's response to an `ls-refs` request, byte for byte, in few chunks. Undefined when git must respond, as for
 * anything that the protocol's documentation does not cover.
 */
export async function answerLsRefs(
  snapshots: RefCache,
  directory: string,
  input: Buffer,
): Promise<Buffer[] | undefined> {
  const request = parseListRequest(input)
  const snapshot = request && (await snapshots.of(directory))
  if (!snapshot) return undefined
  const peeled = request.peel ? await snapshots.peeled(directory, snapshot) : noTags
  if (!peeled) return undefined
  const { symrefs } = request
  const prefixes = request.prefixes.length === 0 ? [''] : request.prefixes
  const isHeadWanted = prefixes.some((prefix) => 'HEAD'.startsWith(prefix))
  const head = isHeadWanted ? headLine(request, snapshot.head, peeled) : ''
  const style = request.peel ? 'peeled' : 'plain'
  const lines = await snapshot.lines({ style, prefixes, symrefs, peeled })
  return joined([bytesOf(head), ...lines, flushPacket])
}

function headLine({ peel, symrefs, unborn }: ListRequest, head: RefValue, peeled: Peeled): string {
  const shown = symrefs ? head : { ...head, target: undefined }
  if (head.id !== undefined) return linesOf('HEAD', shown, peel ? 'peeled' : 'plain', peeled)
  return unborn && symrefs ? linesOf('HEAD', { ...head, id: 'unborn' }, 'plain', peeled) : ''
}

// Parses a single `ls-refs` request; undefined for any other, which is for git.
function parseListRequest(input: Buffer): ListRequest | undefined {
  const request: ListRequest = { peel: false, symrefs: false, unborn: false, prefixes: [] }
  let take = takeCommand
  let hasCommand = false
  let isArgument = false

  function takeCommand(line: string): boolean {
    take = takeCapability
    hasCommand = line === 'command=ls-refs'
    return hasCommand
  }

  function takeCapability(line: string): boolean {
    return line === 'object-format=sha1' || /^agent=[\x20-\x7e]*$/.test(line)
  }

  function takeArgument(line: string): boolean {
    if (line === 'peel' || line === 'symrefs' || line === 'unborn') request[line] = true
    else if (!line.startsWith(prefixMark) || line.includes('\0')) return false
    else request.prefixes.push(line.slice(prefixMark.length))
    return request.prefixes.length <= maxPrefixes
  }

  for (let at = 0, lines = 0; lines < maxLines; lines++) {
    const found = firstPacket(input.subarray(at))
    if (typeof found !== 'object') return undefined
    at += found.length
    const { packet } = found
    if (packet.kind === 'flush') return hasCommand && at === input.length ? request : undefined
    if (packet.kind === 'delimiter' && hasCommand && !isArgument) {
      isArgument = true
      take = takeArgument
    } else if (packet.kind !== 'data') return undefined
    else if (!take(packet.payload.toString('latin1').replace(/\n$/, ''))) return undefined
  }
  return undefined
}
