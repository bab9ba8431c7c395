import type { Peeled } from '../refs/peel-tags.ts'
import { bytesOf, joined, linesOf, type RefSnapshot } from '../refs/ref-snapshot.ts'
import { flushPacket, packet } from './pkt-line.ts'

/** Git's capabilities for fetches before version 2, split around the `symref=HEAD:` capability. */
export type FetchCapabilities = { before: string; after: string }

/**
 * Builds the advertisement of `git upload-pack` in version 0, byte for byte, in few chunks: "Reference Discovery" in
 * https://git-scm.com/docs/pack-protocol Undefined when there are no refs: git's releases differ, so git must do it.
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

/** Extracts the capabilities from git's advertisement; undefined unless HEAD names an existing branch. */
export function fetchCapabilitiesIn(advertisement: string): FetchCapabilities | undefined {
  const capabilities = capabilitiesIn(advertisement)
  const start = capabilities.lastIndexOf(' symref=HEAD:')
  if (start === -1) return undefined
  const end = capabilities.indexOf(' ', start + 1)
  return {
    before: capabilities.slice(0, start),
    after: end === -1 ? '' : capabilities.slice(end),
  }
}

/** Extracts the capabilities from an advertisement: the text between the first NUL and the end of its line. */
export function capabilitiesIn(advertisement: string): string {
  const start = advertisement.indexOf('\0')
  const end = advertisement.indexOf('\n', start)
  return start === -1 || end === -1 ? '' : advertisement.slice(start + 1, end)
}

/** Adds capabilities to the first ref of an advertisement; undefined when there are no refs. */
export function withCapabilities(lines: Buffer[], capabilities: string): Buffer[] | undefined {
  const [first, ...rest] = lines.filter((piece) => piece.length > 0)
  if (!first) return undefined
  const length = Number.parseInt(first.toString('latin1', 0, 4), 16)
  const ref = first.toString('latin1', 4, length - 1)
  const line = packet(bytesOf(`${ref}\0${capabilities}\n`))
  return joined([line, first.subarray(length), ...rest, flushPacket])
}
