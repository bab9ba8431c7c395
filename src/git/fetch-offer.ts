import { flushPacket, packet } from './pkt-line.ts'
import { bytesOf, joined, linesOf, type RefSnapshot } from './ref-snapshot.ts'
import type { Peeled } from './tag-objects.ts'

/** What git can do in a fetch before version 2, as it stands before and after what it says of HEAD. */
export type FetchCapabilities = { before: string; after: string }

/**
 * What `git upload-pack` begins with in version 0, byte for byte, in few pieces: "Reference Discovery" in
 * https://git-scm.com/docs/pack-protocol Undefined where git must say it, as it must where there are no refs:
 * releases differ in that.
 */
export async function fetchOffer(
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
  const [, before, after] = /\0([^\n]*) symref=HEAD:[^ \n]+([^\n]*)\n/.exec(offer) ?? []
  return before === undefined || after === undefined ? undefined : { before, after }
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
