import { formatOf } from '#base/object-id.ts'
import { parentsIn } from '#git/objects/pack.ts'
import type { PushRequest } from '#git/protocol/push-commands.ts'
import { type Body, prepend } from '#git/protocol/request-body.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { branchPrefix, type RefUpdate } from '#git/refs/refs.ts'
import type { GitRequest } from '../requests/git-request.ts'

// Parsing blocks the event loop. A pack is parsed from its start for each chunk.
const packMaxBytes = 64 * 1024
const maxChunks = 16

/** `apart` when the pack has the commit's whole history; `unknown` when the pack cannot be parsed. */
type BuildsOn = 'yes' | 'apart' | 'no' | 'unknown'

/** The only update of a push that deletes nothing, and what its pack shows about it; unless `unknown`, the pack is whole. */
export type ReadPush = { update: RefUpdate; buildsOn: BuildsOn; pack: Buffer }

/** A push whose pack may have been read before git gets it. */
export type AheadPush = {
  /** The whole body, not yet consumed. */
  whole: Body
  read: ReadPush | undefined
  /** Whether it is known to be a single fast-forward of a branch. Otherwise a git process finds that out later. */
  isFastForward: boolean
}

/**
 * Reads a push of one ref until its pack is complete, or too large to be read here. Where nothing may follow the pack, it
 * waits for the end of the request.
 *
 * Measured: that a fast-forward is known, without a `git merge-base`, makes a push of a commit take 44 instead of 51 ms of
 * CPU time. Small pushes and the connectivity shortcut depend on it.
 */
export async function readAhead(
  { updates, commandBytes, whole }: Pick<PushRequest, 'updates' | 'commandBytes' | 'whole'>,
  { sendsAllFirst }: Pick<GitRequest, 'sendsAllFirst'>,
): Promise<AheadPush> {
  const [update, ...others] = updates
  if (!update || others.length > 0 || update.after === zeroId)
    return { whole, read: undefined, isFastForward: false }
  const chunks: Buffer[] = []
  let buildsOn: BuildsOn | undefined
  while (buildsOn === undefined) {
    const { value } = await whole.next()
    if (!value) break
    chunks.push(value)
    const pack = Buffer.concat(chunks).subarray(commandBytes)
    const isLarge = chunks.length > maxChunks || pack.length > packMaxBytes
    buildsOn = isLarge ? 'unknown' : basisOf(pack, update)
  }
  if (buildsOn !== undefined && buildsOn !== 'unknown' && sendsAllFirst) {
    // What is checked from now on must not become old while a client sends more, byte by byte.
    const { value } = await whole.next()
    if (value) {
      chunks.push(value)
      buildsOn = 'unknown'
    }
  }
  const pack = Buffer.concat(chunks).subarray(commandBytes)
  return {
    whole: prepend(chunks, whole),
    read: buildsOn && { update, buildsOn, pack },
    isFastForward: buildsOn === 'yes' && update.ref.startsWith(branchPrefix),
  }
}

/**
 * Whether the history of `after` consists of new commits in a small pack, all based on `before`; then the update is a
 * fast-forward. Undefined while the pack is incomplete. See https://git-scm.com/docs/pack-format
 */
export function basisOf(
  pack: Buffer,
  { before, after }: Pick<RefUpdate, 'before' | 'after'>,
): BuildsOn | undefined {
  const parents = parentsIn(pack, formatOf(after))
  if (!(parents instanceof Map)) return parents
  const waiting = [after]
  const seen = new Set<string>()
  let isReached = false
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    isReached ||= id === before
    if (seen.has(id) || id === before) continue
    seen.add(id)
    const known = parents.get(id)
    if (!known) return 'no'
    waiting.push(...known)
  }
  return isReached ? 'yes' : 'apart'
}
