import type { Log } from '../base/log.ts'
import type { Ended } from '../git/process/git-process.ts'
import type { Directories } from './directories.ts'

export type RepositoryHolds = ReturnType<typeof createRepositoryHolds>

/** Somebody who changes a repository with a git process, until disposed of. */
export type Hold = AsyncDisposable & {
  /** Tells how the visitor ends: one that is killed leaves an untidy repository. */
  watch: (process: Promise<Pick<Ended, 'exitCode'>>) => void
}

type Dependencies = { directories: Directories; log: Log; startedAt: number }

/**
 * Clears away what git processes that were killed left in repositories: locks, quarantines, half packs.
 * Git itself does so only when it ends of its own accord.
 */
export function createRepositoryHolds({ directories, log, startedAt }: Dependencies) {
  const done = new Map<string, Promise<void>>()
  /** Who is in each repository, with when they have left. */
  const visitors = new Map<string, Map<Hold, Promise<void>>>()
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

  async function leave(id: string, hold: Hold): Promise<void> {
    const inside = visitors.get(id)
    inside?.delete(hold)
    if (inside && inside.size > 0) return
    visitors.delete(id)
    // Nobody is in, so whatever is only passing was left behind.
    if (!untidy.delete(id)) return
    const tidied = tidy(id)
    done.set(id, tidied)
    await tidied
  }

  return {
    /** Waits until a repository is tidy, and keeps it from being tidied while a git process changes it. */
    async acquire(id: string): Promise<Hold> {
      const left = Promise.withResolvers<void>()
      let ended: Promise<Pick<Ended, 'exitCode'>> | undefined
      const hold: Hold = {
        watch(process) {
          ended = process
        },
        async [Symbol.asyncDispose]() {
          const exitCode = await ended?.then(({ exitCode }) => exitCode).catch(() => null)
          if (exitCode === null) untidy.add(id)
          await leave(id, hold)
          left.resolve()
        },
      }
      const inside = visitors.get(id) ?? new Map<Hold, Promise<void>>()
      visitors.set(id, inside.set(hold, left.promise))
      await once(id)
      return hold
    },

    /** Waits until all have left who are in a repository now, besides oneself. */
    async untilOthersLeft(id: string, hold: Hold): Promise<void> {
      const others = [...(visitors.get(id) ?? [])].filter(([other]) => other !== hold)
      await Promise.all(others.map(([, left]) => left))
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
