import type { Peeled } from '../refs/peel-tags.ts'
import { bytesOf, joined, linesOf, type RefSnapshot } from '../refs/ref-snapshot.ts'
import { flushPacket, packet } from './pkt-line.ts'

/** What git can do in a fetch before version 2, as it stands before and after what it says of HEAD. */
export type FetchCapabilities = { before: string; after: string }

/**
 * What `git upload-pack` begins with in version 0, byte for byte, in few pieces: "Reference Discovery" in
 * https://git-scm.com/docs/pack-protocol Undefined where git must say it, as it must where there are no refs:
 * releases differ in that.
 */
export async function fetchAdvertisement(
  snapshot: RefSnapshot,
  peeled: Peeled,
  capabilities: FetchCapabilities,
): Promise<Buffer[] | undefined> {
  const style = 'doubled'
  const { head } = snapshot
  const lines = await snapshot.lines({ style, prefixes: [''], symrefs: false, peeled })
  const headLines = linesOf('HEAD', { ...head, target: undefined }, style, peeled)
  const hasTarget = head.id !== undefined && head.target !== undefined
  const symref = hasTarget ? ` symref=HEAD:${head.target}` : ''
  const { before, after } = capabilities
  return withCapabilities([bytesOf(headLines), ...lines], `${before}${symref}${after}`)
}

/** The capabilities in what git printed of a repository whose HEAD names a branch that exists; else undefined. */
export function fetchCapabilitiesIn(offer: string): FetchCapabilities | undefined {
  const capabilities = capabilitiesIn(offer)
  const start = capabilities.lastIndexOf(' symref=HEAD:')
  if (start === -1) return undefined
  const end = capabilities.indexOf(' ', start + 1)
  return {
    before: capabilities.slice(0, start),
    after: end === -1 ? '' : capabilities.slice(end),
  }
}

/** The capabilities in what upload-pack or receive-pack printed: what follows the first NUL, to the end of its line. */
export function capabilitiesIn(offer: string): string {
  const start = offer.indexOf('\0')
  const end = offer.indexOf('\n', start)
  return start === -1 || end === -1 ? '' : offer.slice(start + 1, end)
}

/** Refs as git begins an answer with them, the first with its capabilities; undefined when there is none. */
export function withCapabilities(lines: Buffer[], capabilities: string): Buffer[] | undefined {
  const [first, ...rest] = lines.filter((piece) => piece.length > 0)
  if (!first) return undefined
  const length = Number.parseInt(first.toString('latin1', 0, 4), 16)
  const ref = first.toString('latin1', 4, length - 1)
  const line = packet(bytesOf(`${ref}\0${capabilities}\n`))
  return joined([line, first.subarray(length), ...rest, flushPacket])
}
