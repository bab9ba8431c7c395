import type { RefCache } from '../refs/ref-cache.ts'
import { hiddenVersionRef, zeroId } from '../refs/ref-name.ts'
import {
  bytesOf,
  joined,
  linesOf,
  noTags,
  type Peeled,
  type RefValue,
} from '../refs/ref-snapshot.ts'
import { readNamedRefs } from '../refs/refs.ts'
import { flushPacket, packet } from './pkt-line.ts'
import { parseCommand } from './requests.ts'

/** An `ls-refs` request: https://git-scm.com/docs/protocol-v2 Prefixes are in latin1. */
type ListRequest = { peel: boolean; symrefs: boolean; unborn: boolean; prefixes: string[] }

// Parsing blocks the event loop. Clients send six prefixes for each ref that they request by name.
const maxLines = 4096
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
  const versions = await versionLines(directory, request.prefixes)
  return joined([bytesOf(head), ...lines, ...versions, flushPacket])
}

/** Versions of changes are listed only where a client names them. */
async function versionLines(directory: string, prefixes: string[]): Promise<Buffer[]> {
  const names = prefixes.filter((name) => hiddenVersionRef(name) !== undefined)
  if (names.length === 0) return []
  const values = await readNamedRefs(directory, names)
  return [...values].flatMap(([name, id]) => (id === zeroId ? [] : [packet(`${id} ${name}\n`)]))
}

function headLine({ peel, symrefs, unborn }: ListRequest, head: RefValue, peeled: Peeled): string {
  const shown = symrefs ? head : { ...head, target: undefined }
  if (head.id !== undefined) return linesOf('HEAD', shown, peel ? 'peeled' : 'plain', peeled)
  return unborn && symrefs ? linesOf('HEAD', { ...head, id: 'unborn' }, 'plain', peeled) : ''
}

// Parses a single `ls-refs` request; undefined for any other, which is for git.
function parseListRequest(input: Buffer): ListRequest | undefined {
  const command = parseCommand(input, maxLines)
  if (command?.name !== 'ls-refs') return undefined
  const request: ListRequest = { peel: false, symrefs: false, unborn: false, prefixes: [] }
  for (const line of command.args) {
    if (line === 'peel' || line === 'symrefs' || line === 'unborn') request[line] = true
    else if (!line.startsWith(prefixMark) || line.includes('\0')) return undefined
    else request.prefixes.push(line.slice(prefixMark.length))
  }
  return request
}
