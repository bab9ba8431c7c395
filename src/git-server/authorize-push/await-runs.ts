import { limitKeyOf } from '#access/principal.ts'
import { createPoller } from '#base/concurrency/poller.ts'
import { createQuota } from '#base/concurrency/quota.ts'
import { Problem } from '#base/problem.ts'
import type { PlainSettings } from '#config/settings.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { type RefUpdate, readRefs } from '#git/refs/refs.ts'
import type { Repository } from '#repositories/repositories.ts'
import type { Push, PushAuthority, RunForPush, Wait } from '../push/push.ts'
import { openQuarantine, withPushLimits } from '../push/pushed-objects.ts'
import {
  authorizeGuarded,
  authorizePush,
  type PushAuthorization,
  type RefTargets,
} from './authorize-push.ts'
import { findRequired } from './protected-refs.ts'
import { historyOf } from './pushed-history.ts'

export type WaitingPushParts = PushAuthorization & {
  runAwaited: RunForPush
  settings: Pick<PlainSettings, 'pushWaitSeconds' | 'maxWaitingPushes'>
}

/** Lets pushes wait for their runs. */
type WaitingPushes = Pick<PushAuthority, 'awaitRuns'> & {
  /** Refuses the pushes that wait, and all later ones that would: the server is about to stop. */
  stop: () => void
}

type Wanted = Parameters<RunForPush>[0]['wanted']

// A waiting push keeps a connection, a git process and a directory in quarantine.
const maxWaitingPerKey = 4
const recheckIntervalMs = 10_000

export function createWaitingPushes(dependencies: WaitingPushParts): WaitingPushes {
  const { git, findMissing, runAwaited, settings } = dependencies
  const users = createQuota({ overall: settings.maxWaitingPushes, perKey: maxWaitingPerKey })
  const busy = createQuota({ overall: settings.maxWaitingPushes, perKey: maxWaitingPerKey })
  const stopping = new AbortController()
  // Only the runs show whether they succeed.
  const beforeRuns: WaitingPushParts = {
    ...dependencies,
    async findMissing(candidate, requirement) {
      const missing = await findMissing(candidate, requirement)
      return missing?.kind === 'run' ? undefined : missing
    },
  }

  /** The files to run for each update: those that protections require, or else those that the push would start. */
  async function findWanted(
    push: Push,
    { repository, targets }: { repository: Repository; targets: RefTargets },
    updates: RefUpdate[],
  ): Promise<Wanted> {
    const present = updates.filter(({ after }) => after !== zeroId)
    const required = await findRequired(dependencies, repository, present, targets)
    const history = historyOf(git, push)
    const forced = await history.findForced(present)
    const pushed = present.map((update, index) => ({ ...update, forced: forced[index] ?? false }))
    const requiresRuns = [...required.values()].flat().some((one) => 'workflow' in one)
    if (!requiresRuns) return pushed.map((update) => ({ update, files: undefined }))
    const commits = await history.commitsOf(present.map(({ after }) => after))
    const wanted: Wanted = []
    for (const update of pushed) {
      const commit = commits.get(update.after) ?? update.after
      const candidate = { repository, commit, find: history.find }
      const files = new Set<string>()
      for (const one of required.get(update.ref) ?? [])
        if ('workflow' in one && (await findMissing(candidate, one))) files.add(one.workflow)
      if (files.size > 0) wanted.push({ update, files: [...files] })
    }
    return wanted
  }

  /** A signal that is aborted when the push is no longer allowed. */
  function watchRights(
    push: Push,
    updates: RefUpdate[],
  ): AsyncDisposable & { signal: AbortSignal } {
    const lost = new AbortController()
    const poller = createPoller({
      intervalMs: recheckIntervalMs,
      run: async () => void (await authorizePush(beforeRuns, push, updates)),
      onError(error) {
        if (error instanceof Problem) lost.abort(error)
      },
    })
    return { signal: lost.signal, [Symbol.asyncDispose]: () => poller[Symbol.asyncDispose]() }
  }

  async function awaitRuns(
    push: Push,
    updates: RefUpdate[],
    { onProgress, signal }: Wait,
  ): Promise<void> {
    // From here: the checks of the push and the planning of its runs take time, too.
    const late = new AbortController()
    using _timer = setTimeout(
      () => late.abort(tooLate(settings.pushWaitSeconds)),
      settings.pushWaitSeconds * 1000,
    )
    using _user = acquire(users, limitKeyOf(push.principal), 'user')
    using _repository = acquire(busy, push.repository.id, 'repository')
    const { principal, repository, targets } = await authorizeGuarded(beforeRuns, push, updates)
    await refuseMoved(repository, updates)
    const wanted = await findWanted(push, { repository, targets }, updates)
    await using rights = watchRights(push, updates)
    const awaited = await runAwaited({
      repository,
      actor: principal,
      git: await openQuarantine(withPushLimits(git, settings), push),
      wanted,
      options: push.runOptions ?? {},
      onProgress,
      signal: AbortSignal.any([signal, stopping.signal, rights.signal, late.signal]),
    })
    push.runOptions = { ...push.runOptions, awaited }
    const after = await authorizePush(beforeRuns, push, updates)
    await refuseMoved(after.repository, updates)
  }

  return {
    awaitRuns,
    stop: () => stopping.abort(new Problem('run_required', 'The server is stopping. Push again.')),
  }
}

function tooLate(seconds: number): Problem {
  return new Problem(
    'run_required',
    `The runs did not end within ${seconds} s; nothing was pushed.`,
  )
}

function acquire(quota: ReturnType<typeof createQuota>, key: string, of: string): Disposable {
  const place = quota.acquire(key)
  if (typeof place === 'object') return place
  const whose = place === 'per-key' ? `of this ${of}` : 'of this server'
  throw new Problem('git_busy', `Too many pushes ${whose} wait for their runs; try again later.`)
}

/** Git compares the values only when it moves the refs. Throws `ref_moved`. */
async function refuseMoved({ path }: Repository, updates: RefUpdate[]): Promise<void> {
  const written = updates.filter(({ after }) => after !== zeroId)
  const values = await readRefs(
    path,
    written.map(({ ref }) => ref),
  )
  const moved = written.find(({ ref, before }) => (values.get(ref) ?? zeroId) !== before)
  if (!moved) return
  throw new Problem(
    'ref_moved',
    `The ref "${moved.ref}" was changed by another push in the meantime. Fetch it, and push again.`,
  )
}
