import { createHash } from 'node:crypto'
import { packHeader } from '#git/objects/pack.ts'
import {
  bandMaxBytes,
  delimiterPacket,
  flushPacket,
  packBand,
  packet,
} from '#git/protocol/pkt-line.ts'
import type { RecentPacks } from '../small-packs/recent-packs.ts'
import type { FetchRequest } from './cache-key.ts'

/**
 * The response to a fetch by a client that has what a recent push built on: the pack that was pushed, without a git
 * process. Undefined for any other fetch. See https://git-scm.com/docs/protocol-v2
 *
 * Tags of the new commits are left out; a client that follows tags requests these itself, as with any server that does not
 * know `include-tag`.
 *
 * Measured: a fetch takes 4.5 instead of 16 ms of CPU time. Without this function, `recent-packs.ts` and `toRecentPack` go
 * as well.
 */
export function answerFromRecentPacks(
  recentPacks: RecentPacks,
  repositoryId: string,
  { follows }: FetchRequest,
): Buffer[] | undefined {
  if (!follows) return undefined
  const found = recentPacks.find(repositoryId, follows.wanted, follows.haves)
  if (!found) return undefined
  const { common, packs } = found
  const objects = packs.reduce((sum, { ids }) => sum + ids.size, 0)
  const content = Buffer.concat([packHeader(objects), ...packs.map(({ entries }) => entries)])
  const pack = Buffer.concat([content, createHash('sha1').update(content).digest()])
  const pieces = follows.isDone
    ? []
    : [packet('acknowledgments\n'), packet(`ACK ${common}\n`), packet('ready\n'), delimiterPacket]
  pieces.push(packet('packfile\n'))
  for (let at = 0; at < pack.length; at += bandMaxBytes)
    pieces.push(packet(Buffer.concat([Buffer.of(packBand), pack.subarray(at, at + bandMaxBytes)])))
  return [...pieces, flushPacket]
}
