import type { Readable } from 'node:stream'
import { chunksOf } from '#base/chunks.ts'
import type { ObjectFormat } from '#base/object-id.ts'
import { toGitId, zeroId } from '../refs/ref-name.ts'
import {
  bytesOf,
  joined,
  linesOf,
  noTags,
  type Peeled,
  type RefSnapshot,
} from '../refs/ref-snapshot.ts'
import { firstPacket, flushPacket, packet } from './pkt-line.ts'

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

/**
 * Builds the advertisement of `git receive-pack` in version 0, byte for byte, in few chunks: "Reference Discovery" in
 * https://git-scm.com/docs/pack-protocol
 */
export async function pushAdvertisement(
  snapshot: RefSnapshot,
  capabilities: string,
  format: ObjectFormat,
): Promise<Buffer[]> {
  const lines = await snapshot.lines({
    style: 'plain',
    prefixes: [''],
    symrefs: false,
    peeled: noTags,
  })
  const nothing = [
    packet(`${toGitId(zeroId, format)} capabilities^{}\0${capabilities}\n`),
    flushPacket,
  ]
  return withCapabilities(lines, capabilities) ?? nothing
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

/** Git's capabilities for repositories of some object formats, of those for another one. */
export function withObjectFormats(capabilities: string, formats: readonly ObjectFormat[]): string {
  const offered = formats.map((format) => `object-format=${format}`)
  return capabilities.replace(/object-format=\w+/, offered.join(' '))
}

/** Git's advertisement of version 2 for repositories of an object format, of that for another one. */
export function inObjectFormat(advertisement: Buffer, format: ObjectFormat): Buffer {
  const line = packet(`object-format=${format}\n`).toString('latin1')
  return bytesOf(advertisement.toString('latin1').replace(/[0-9a-f]{4}object-format=\w+\n/, line))
}

/** Extracts the capabilities from an advertisement: the text between the first NUL and the end of its line. */
export function capabilitiesIn(advertisement: string): string {
  const start = advertisement.indexOf('\0')
  const end = advertisement.indexOf('\n', start)
  return start === -1 || end === -1 ? '' : advertisement.slice(start + 1, end)
}

/** Adds capabilities to the first ref of an advertisement; undefined when there are no refs. */
function withCapabilities(lines: Buffer[], capabilities: string): Buffer[] | undefined {
  const [first, ...rest] = lines.filter((piece) => piece.length > 0)
  if (!first) return undefined
  const length = Number.parseInt(first.toString('latin1', 0, 4), 16)
  const ref = first.toString('latin1', 4, length - 1)
  const line = packet(bytesOf(`${ref}\0${capabilities}\n`))
  return joined([line, first.subarray(length), ...rest, flushPacket])
}

/** Reads and drops git's advertisement, up to the first flush packet. */
export async function skipAdvertisement(output: Readable, signal: AbortSignal): Promise<void> {
  let rest = Buffer.alloc(0)
  for await (const chunk of chunksOf(output, signal)) {
    rest = Buffer.concat([rest, chunk])
    for (;;) {
      const found = firstPacket(rest)
      if (found === 'incomplete') break
      if (found === 'malformed') {
        output.unshift(rest)
        return
      }
      rest = rest.subarray(found.length)
      if (found.packet.kind !== 'flush') continue
      if (rest.length > 0) output.unshift(rest)
      return
    }
  }
}
