import { statfs } from 'node:fs/promises'
import { createPoller } from '#base/concurrency/poller.ts'
import { createTaskGroup } from '#base/concurrency/task-group.ts'
import { newId } from '#base/ids.ts'
import type { Log } from '#base/log.ts'
import type { FailedWorkspaceBody } from '../../runner-api/shell-api.ts'
import type { Plan } from '../../workflow-engine/plan.ts'
import type { KeepFailed } from '../../workflow-engine/run-state.ts'
import type { RunConnection } from '../run-connection.ts'
import { describeError } from '../server-client.ts'
import type { RunnerRequest } from './serve-shell.ts'
import { createShellClaims, type ShellWorkspace } from './shell-claims.ts'

/**
 * The workspaces of failed jobs, kept for shells. They are removed when their time is over, when there are too many,
 * when the disk has little space, when the server does not want them, and at the end of the runner.
 */
export type FailedWorkspaces = AsyncDisposable & {
  /** Returns what keeps the workspaces of a run. */
  keeperOf: (plan: AttemptOfPlan, connection: Pick<RunConnection, 'request'>) => KeepFailed
  /** Begins the time for which those of a run are kept, or removes them when the run has not completed. */
  onRunEnd: (plan: AttemptOfPlan, isCompleted: boolean) => void
  /** The number of workspaces. */
  size: () => number
}

type AttemptOfPlan = Pick<Plan, 'runId' | 'attempt'>

type Kept = ShellWorkspace & {
  timer?: NodeJS.Timeout
  /** Whether the server knows it. */
  isKnown: boolean
  /** Whether it is to be removed when no shell runs in it. */
  isOver: boolean
}

type Options = {
  /** How long they are kept after their run; 0 for none. */
  keptMs: number
  /** The directory of the workspaces, and the bytes that must stay free on its disk. */
  folder: string
  freeSpaceMinBytes: number
  request: RunnerRequest
  log: Log
  /** Called when the last workspace was removed. */
  onEmpty: () => void
}

const maxKept = 3
const registerTimeoutMs = 10_000
const spaceIntervalMs = 1000
/** Steps are killed below the minimum of free space, so workspaces are removed above it. */
const spaceMarginMaxBytes = 1024 ** 3

export function createFailedWorkspaces(options: Options): FailedWorkspaces {
  const { keptMs, folder, freeSpaceMinBytes, request, log, onEmpty } = options
  const kept = new Map<string, Kept>()
  const removals = createTaskGroup()
  let isStopping = false
  const claims = createShellClaims({
    request,
    log,
    listWorkspaces: () =>
      [...kept.values()].flatMap(({ id, isKnown, isOver }) => (isKnown && !isOver ? [id] : [])),
    findWorkspace: (id) => kept.get(id),
    onGone: (id) => remove(kept.get(id)),
    onShellEnd: (one) => {
      if (kept.get(one.id)?.isOver) remove(kept.get(one.id))
    },
  })
  const onSpaceError = (error: unknown) =>
    log.error({ err: error }, 'measuring the disk of workspaces failed')
  // Woken when a workspace is kept, and at an interval while there is one.
  const space = createPoller({
    intervalMs: undefined,
    async run() {
      await freeSpace().catch(onSpaceError)
      return kept.size === 0 ? undefined : spaceIntervalMs
    },
    onError: onSpaceError,
  })

  function remove(one: Kept | undefined): void {
    if (one?.shell && !isStopping) one.isOver = true
    else if (one && kept.delete(one.id)) {
      clearTimeout(one.timer)
      claims.onRemoved(one.id)
      void removals.add(dispose(one)).then(() => {
        if (kept.size === 0) onEmpty()
      })
    }
  }

  async function dispose({ workspace, run }: Kept): Promise<void> {
    try {
      await workspace[Symbol.asyncDispose]()
    } catch (error) {
      log.error({ err: error, run }, 'workspace not removed')
    }
  }

  async function freeSpace(): Promise<void> {
    const { bavail, bsize } = await statfs(folder)
    const margin = Math.min(freeSpaceMinBytes, spaceMarginMaxBytes)
    if (bavail * bsize >= freeSpaceMinBytes + margin) return
    log.warn({ count: kept.size }, 'workspaces of failed jobs removed to free disk space')
    for (const one of [...kept.values()]) remove(one)
  }

  /** Removes the oldest workspaces without a shell, so that there are fewer than the maximum if possible. */
  function makeSpace(): void {
    const unused = [...kept.values()].filter(({ shell }) => !shell)
    for (const one of unused.slice(0, Math.max(0, kept.size - maxKept + 1))) remove(one)
  }

  return {
    keeperOf: (plan, connection) => async (failed) => {
      if (keptMs === 0 || isStopping) return false
      makeSpace()
      if (kept.size >= maxKept) return false
      const [id, run] = [newId(), nameOf(plan)]
      const one: Kept = { ...failed, id, run, shell: undefined, isKnown: false, isOver: false }
      kept.set(id, one)
      const about = { id, job: one.job, keptSeconds: keptMs / 1000, holder: claims.holder }
      try {
        await connection.request({
          method: 'POST',
          path: '/workspaces',
          body: JSON.stringify(about satisfies FailedWorkspaceBody),
          timeoutMs: registerTimeoutMs,
        })
      } catch (error) {
        kept.delete(id)
        log.warn({ run, reason: describeError(error) }, 'workspace not kept')
        return false
      }
      one.isKnown = true
      // Perhaps while the server recorded it.
      if (!kept.has(id)) claims.onRemoved(id)
      claims.start()
      space.wake()
      return true
    },

    onRunEnd(plan, isCompleted) {
      for (const one of [...kept.values()].filter(({ run }) => run === nameOf(plan))) {
        if (isCompleted) one.timer = setTimeout(() => remove(one), keptMs)
        else remove(one)
      }
    },

    size: () => kept.size,

    async [Symbol.asyncDispose]() {
      isStopping = true
      const ending = claims.end(async () => {
        // Removing a workspace kills the shell in it.
        for (const one of [...kept.values()]) remove(one)
        await removals.settled()
      })
      await Promise.all([ending, space[Symbol.asyncDispose]()])
    },
  }
}

/** The name of a run in logs; each attempt has its own. */
function nameOf({ runId, attempt }: AttemptOfPlan): string {
  return `${runId}/${attempt}`
}
