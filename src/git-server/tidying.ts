import type { Log } from '../base/log.ts'
import type { Directories } from '../repositories/directories.ts'

export type Tidying = ReturnType<typeof createTidying>

type Dependencies = { directories: Directories; log: Log; startedAt: number }

/** Clears away what git processes of an earlier, killed server left in repositories: locks, half packs. */
export function createTidying({ directories, log, startedAt }: Dependencies) {
  const done = new Map<string, Promise<void>>()

  async function tidy(id: string): Promise<void> {
    const removed = await directories.tidy(id, startedAt)
    if (removed.length > 0) log.info({ repositoryId: id, removed }, 'removed leftovers of a crash')
  }

  /** Tidies a repository unless this server did so before. Stale locks would stand in the way of a push. */
  function once(id: string): Promise<void> {
    const known = done.get(id) ?? tidy(id)
    done.set(id, known)
    return known
  }

  return {
    once,

    /** Tidies repositories one after the other, until a signal. */
    async all(ids: string[], signal: AbortSignal): Promise<void> {
      for (const id of ids) {
        if (signal.aborted) return
        await once(id)
      }
    },
  }
}
