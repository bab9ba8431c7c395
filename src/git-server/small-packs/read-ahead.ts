import type { PushRequest } from '#git/protocol/push-commands.ts'
import { type Body, prepend } from '#git/protocol/request-body.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { branchPrefix, type RefUpdate } from '#git/refs/refs.ts'
import type { GitRequest } from '../requests/git-request.ts'
import { type BuildsOn, createPackInspector } from './pushed-pack.ts'

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
  const inspector = createPackInspector(update, commandBytes)
  const chunks: Buffer[] = []
  let buildsOn: BuildsOn | undefined
  while (buildsOn === undefined) {
    const { value } = await whole.next()
    if (!value) break
    chunks.push(value)
    buildsOn = inspector.add(value)
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
