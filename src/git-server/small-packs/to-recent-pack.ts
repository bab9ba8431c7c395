import { createHash } from 'node:crypto'
import type { PackedObject } from '#git/objects/pack.ts'
import { packChecksumBytes, packHeaderBytes } from '#git/objects/pack.ts'
import type { Proof } from './proven-connected.ts'
import type { RecentPack } from './recent-packs.ts'

/**
 * The pack of a push, for clients that have the commit that it builds on. `objects` are those of the pack that git has
 * completed: the bases of deltas that were not pushed come last. Undefined when such a base may not be in what that commit
 * reaches, when the pack has an object that the new value does not lead to, when there is no proof, or when more than the
 * pack was read.
 */
export function toRecentPack(
  after: string,
  pack: Buffer,
  { objects, proof }: { objects: readonly PackedObject[] | undefined; proof: Proof | undefined },
): RecentPack | undefined {
  if (!objects || proof?.base === undefined) return undefined
  const { base, reached, needed } = proof
  const content = pack.subarray(0, -packChecksumBytes)
  const isComplete = createHash('sha1')
    .update(content)
    .digest()
    .equals(pack.subarray(-packChecksumBytes))
  const count = pack.readUInt32BE(8)
  const bases = objects.slice(count)
  if (!isComplete || !bases.every(({ id }) => reached.has(id))) return undefined
  const ids = new Set(objects.slice(0, count).map(({ id }) => id))
  if (ids.size !== count || !ids.isSubsetOf(needed)) return undefined
  // A copy: the pack is a part of the buffer of a request.
  return { base, after, entries: Buffer.from(content.subarray(packHeaderBytes)), ids }
}
