import type { Log } from '../base/log.ts'
import type { Ended } from '../git/git-process.ts'
import type { Directories } from '../repositories/directories.ts'

export type Tidying = ReturnType<typeof createTidying>

type Dependencies = { directories: Directories; log: Log; startedAt: number }

/**
 * Clears away what git processes that were killed left in repositories: locks, quarantines, half packs.
 * Git itself does so only when it ends of its own accord.
 */
export function createTidying({ directories, log, startedAt }: Dependencies) {
  const done = new Map<string, Promise<void>>()
  const visitors = new Map<string, number>()
  const untidy = new Set<string>()

  async function tidy(id: string): Promise<void> {
    try {
      const removed = await directories.tidy(id, startedAt)
      if (removed.length > 0)
        log.info({ repositoryId: id, removed }, 'removed what a killed git left')
    } catch (error) {
      // What could not be removed may be in nobody's way; the next push tries again.
      done.delete(id)
      log.warn({ err: error, repositoryId: id }, 'what a killed git left could not be removed')
    }
  }

  /** Tidies a repository unless this server did so before. Stale locks would stand in the way of a push. */
  function once(id: string): Promise<void> {
    const known = done.get(id) ?? tidy(id)
    done.set(id, known)
    return known
  }

  function leave(id: string): void {
    const left = (visitors.get(id) ?? 1) - 1
    if (left > 0) {
      visitors.set(id, left)
      return
    }
    visitors.delete(id)
    // Nobody is in, so whatever is only passing was left behind.
    if (untidy.delete(id)) done.set(id, tidy(id))
  }

  return {
    /** Waits until a repository is tidy, and keeps it from being tidied while a git process changes it. */
    async enter(id: string) {
      visitors.set(id, (visitors.get(id) ?? 0) + 1)
      let ended: Promise<Ended> | undefined
      await once(id)
      return {
        /** Tells how the visitor ends: one that is killed leaves an untidy repository. */
        watch(process: Promise<Ended>): void {
          ended = process
        },
        async [Symbol.asyncDispose]() {
          const exitCode = await ended?.then(({ exitCode }) => exitCode).catch(() => null)
          if (exitCode === null) untidy.add(id)
          leave(id)
        },
      }
    },

    /** Tidies repositories one after the other, until a signal. */
    async all(ids: string[], signal: AbortSignal): Promise<void> {
      for (const id of ids) {
        if (signal.aborted) return
        await once(id)
      }
    },
  }
}
