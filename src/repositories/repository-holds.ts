import { createSingleFlight } from '#base/concurrency/single-flight.ts'
import type { Log } from '#base/log.ts'
import type { Ended } from '#git/process/git-process.ts'
import type { Directories } from './directories/directories.ts'

/**
 * Removes what killed git processes leave in repositories: locks, quarantine directories, partial packs. Git itself
 * does so only when it exits normally.
 */
export type RepositoryHolds = {
  /** Waits for clean-up and prevents the next one while a git process changes the repository. */
  acquire: (id: string) => Promise<Hold>
  /** Waits for the release of all other present holds on a repository. */
  waitForOtherHolds: (id: string, hold: Hold) => Promise<void>
  /** Cleans repositories up one after another, until the signal. */
  cleanUpAll: (ids: string[], signal: AbortSignal) => Promise<void>
}

/** A shared hold on a repository: no clean-up runs until it is disposed. */
export type Hold = AsyncDisposable & {
  /** Watches the git process of this hold: a killed one leaves files that need clean-up. */
  watch: (process: Promise<Pick<Ended, 'exitCode'>>) => void
}

type Dependencies = { directories: Directories; log: Log; startedAt: number }

export function createRepositoryHolds({
  directories,
  log,
  startedAt,
}: Dependencies): RepositoryHolds {
  const share = createSingleFlight<void>()
  // Repositories without leftovers of earlier processes.
  const clean = new Set<string>()
  /** The holds on each repository, each with a promise of its release. */
  const holds = new Map<string, Map<Hold, Promise<void>>>()
  const dirty = new Set<string>()

  async function cleanUp(id: string): Promise<void> {
    try {
      const removed = await directories.cleanUp(id, startedAt)
      if (removed.length > 0)
        log.info({ repositoryId: id, removed }, 'leftovers of a killed git removed')
      clean.add(id)
    } catch (error) {
      // The leftovers may be harmless; the next push tries again.
      log.warn({ err: error, repositoryId: id }, 'leftovers of a killed git not removed')
    }
  }

  /** Cleans a repository up once in the life of this server: stale locks would block pushes. */
  async function ensureClean(id: string): Promise<void> {
    if (!clean.has(id)) await share(id, () => cleanUp(id))
  }

  async function release(id: string, hold: Hold): Promise<void> {
    const present = holds.get(id)
    present?.delete(hold)
    if (present && present.size > 0) return
    holds.delete(id)
    // Without holds, all temporary files are leftovers.
    if (!dirty.delete(id)) return
    clean.delete(id)
    await ensureClean(id)
  }

  return {
    async acquire(id) {
      const released = Promise.withResolvers<void>()
      let ended: Promise<Pick<Ended, 'exitCode'>> | undefined
      const hold: Hold = {
        watch(process) {
          ended = process
        },
        async [Symbol.asyncDispose]() {
          const exitCode = await ended?.then(({ exitCode }) => exitCode).catch(() => null)
          if (exitCode === null) dirty.add(id)
          await release(id, hold)
          released.resolve()
        },
      }
      const present = holds.get(id) ?? new Map<Hold, Promise<void>>()
      holds.set(id, present.set(hold, released.promise))
      await ensureClean(id)
      return hold
    },

    async waitForOtherHolds(id, hold) {
      const others = [...(holds.get(id) ?? [])].filter(([other]) => other !== hold)
      await Promise.all(others.map(([, released]) => released))
    },

    async cleanUpAll(ids, signal) {
      for (const id of ids) {
        if (signal.aborted) return
        await ensureClean(id)
      }
    },
  }
}
