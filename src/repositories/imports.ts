import { isRepositoryName, repositoryNameForm } from '../access/names.ts'
import type { Principal } from '../access/principal.ts'
import type { Clock } from '../base/clock.ts'
import { newId } from '../base/ids.ts'
import type { Log } from '../base/log.ts'
import { Problem, toProblem } from '../base/problem.ts'
import { createFairLimiter } from '../concurrency/fair-limiter.ts'
import type { Database } from '../database/database.ts'
import type { ImportRow } from '../database/schema.ts'
import { publish } from '../events/events.ts'
import { importFailed } from '../git/import/import-error.ts'
import type { Progress } from '../git/import/progress.ts'
import { endOrphans } from '../git/process/orphans.ts'
import { importOwner, type JobDependencies, makeDraft, watchImport } from './import-job.ts'
import {
  deleteFailedImports,
  deleteImport,
  deleteImportsEndedBefore,
  insertImport,
  listRunningImports,
  markFailed,
  updateProgress,
} from './import-store.ts'
import { requestQuickMaintenance } from './maintenance-state-store.ts'
import { nameTaken, type Repositories } from './repositories.ts'
import {
  deleteRepository,
  insertRepository,
  isNameTaken,
  markReady,
  stateOf,
} from './repository-store.ts'
import { parseSource, type Source } from './source-address.ts'

export type Imports = ReturnType<typeof createImports>

type Dependencies = JobDependencies & {
  db: Database
  repositories: Pick<Repositories, 'describe'>
  /** The same principal as it is now, or undefined when it is none any more. */
  refresh: (principal: Principal) => Promise<Principal | undefined>
  clock: Clock
  log: Log
}

type Wanted = {
  /** Where from; see parseSource. */
  source: string
  /** What to call it; by default it is called what its source is. */
  name: string | undefined
  /** Who owns it, if that is not the caller. */
  owner?: Principal
  /** Gives up the import, with its reason. */
  signal?: AbortSignal
  /** Whether the fault of a failed import is kept for those who ask later. */
  keepsFault: boolean
  /** Called about once a second. */
  onProgress?: (progress: Progress) => void
}

const recordEveryMs = 1000
const failedForMs = 24 * 60 * 60 * 1000

/**
 * Imports: a repository's name is taken first, then it is made from its source where nobody looks, and put in
 * its place whole. Whatever fails leaves no name taken and no files.
 */
export function createImports(dependencies: Dependencies) {
  const { db, directories, sources, repositories, refresh, clock, log, settings, faultPoint } =
    dependencies
  const turns = createFairLimiter({
    overall: settings.importsAtOnce,
    perKey: settings.importsAtOnce,
    waiting: settings.gitWaiting,
    waitMs: settings.gitWaitSeconds * 1000,
  })
  const closing = new AbortController()
  const stopping = new AbortController()
  const running = new Map<string, Promise<void>>()

  /** Takes the name for a repository that is still to come. */
  async function reserve(row: ImportRow): Promise<void> {
    const { name, nameKey, ownerTokenId, ownerUsername, startedAt: createdAt } = row
    const repository = { name, nameKey, ownerTokenId, ownerUsername, createdAt }
    await db.transaction().execute(async (tx) => {
      const isFree = await insertRepository(tx, {
        ...repository,
        id: row.repositoryId,
        state: 'importing',
      })
      if (!isFree) throw nameTaken(name)
      // In the order of `repositories.create`: whoever has the name may forget why others did not get it.
      await deleteFailedImports(tx, name)
      await insertImport(tx, row)
    })
    faultPoint('import.reserved')
  }

  async function run(principal: Principal, row: ImportRow, source: Source, wanted: Wanted) {
    const { repositoryId: id } = row
    const cancelled = new AbortController()
    const signals = [stopping.signal, cancelled.signal]
    if (wanted.signal) signals.push(wanted.signal)
    using watched = watchImport(id, signals, dependencies)
    using _recording = recordProgress(row, watched.progress, cancelled, wanted.onProgress)
    const open = () =>
      sources.open(principal, source, {
        scratch: directories.scratchOf(id, 'source'),
        maxBytes: settings.importMaxBytes,
        signal: watched.signal,
        onArrival: () => watched.onProgress(''),
      })
    await makeDraft(id, open, watched, dependencies)
    watched.signal.throwIfAborted()
    // The copy of a local source is of no more use; whoever waits does not wait for its end alone.
    await Promise.all([directories.place(id), directories.removeScratch(id, 'source')])
    faultPoint('import.placed')
    await record(wanted.owner ?? principal, row)
    faultPoint('import.recorded')
    await directories.spare(id)
  }

  async function record(owner: Principal, row: ImportRow): Promise<void> {
    if (!(await refresh(owner))) {
      throw new Problem('token_invalid', 'The token was deleted or has expired.')
    }
    const { repositoryId, source } = row
    await db.transaction().execute(async (tx) => {
      if (!(await markReady(tx, repositoryId))) throw given()
      await deleteImport(tx, repositoryId)
      if (settings.maintenancePushes !== 'off') {
        await requestQuickMaintenance(tx, { repositoryId, now: clock.now() })
      }
      const data = { name: row.name, source }
      await publish(tx, clock.now(), [
        { kind: 'repository.imported', actor: owner, repositoryId, data },
      ])
    })
  }

  /** Writes down how far an import is, and gives it up when its repository has been deleted. */
  function recordProgress(
    { repositoryId }: ImportRow,
    progress: () => Progress,
    cancelled: AbortController,
    onProgress: Wanted['onProgress'],
  ): Disposable {
    const timer = setInterval(() => {
      onProgress?.(progress())
      updateProgress(db, repositoryId, progress()).then(
        (isWanted) => {
          if (!isWanted) cancelled.abort(given())
        },
        (error) => log.warn({ err: error }, 'the progress of an import could not be recorded'),
      )
    }, recordEveryMs)
    return { [Symbol.dispose]: () => clearInterval(timer) }
  }

  /** Removes all of an import that came to nothing: its files first, then its name. */
  async function clear(id: string, fault: Problem | undefined): Promise<void> {
    await directories.discard(id)
    // It may be in its place already; the connection that was to say so may have broken.
    if ((await stateOf(db, id)) === 'ready') return
    await directories.remove(id)
    await db.transaction().execute(async (tx) => {
      await deleteRepository(tx, id)
      if (!fault) return deleteImport(tx, id)
      await markFailed(tx, id, { code: fault.code, detail: fault.message, now: clock.now() })
    })
    faultPoint('import.cleared')
  }

  async function work(principal: Principal, row: ImportRow, source: Source, wanted: Wanted) {
    const { repositoryId: id } = row
    try {
      await run(principal, row, source, wanted)
      await directories.discard(id)
    } catch (error) {
      const problem = toProblem(error)
      const { name, source: from } = row
      const about = { repositoryId: id, name, source: from, reason: problem.message }
      const cause = problem.cause === undefined ? {} : { err: problem.cause }
      // Nobody waits for the answer of some imports, so a bug would be seen nowhere else.
      const isBug = problem.code === 'internal_error'
      log[isBug ? 'error' : 'info']({ ...about, ...cause }, 'an import failed')
      await clear(id, wanted.keepsFault ? problem : undefined).catch((fault) =>
        log.error({ err: fault, ...about }, 'what an import left will be cleared away later'),
      )
      throw problem
    }
  }

  /** Ends an import whose program is dead; one that is alive goes on. */
  async function end(id: string): Promise<void> {
    using abandoned = await directories.hold(id)
    if (!abandoned) return
    await endOrphans(importOwner(id))
    await clear(
      id,
      importFailed('The import was cut short when its program ended; start it again.'),
    )
  }

  return {
    /**
     * Starts an import; when this returns, the name is taken. `ended` tells how it ended. Throws a Problem for
     * a source that is none or must not be read, a name that is taken, and when too many are under way.
     */
    async start(principal: Principal, wanted: Wanted) {
      const source = parseSource(wanted.source)
      const name = wanted.name ?? source.nameHint
      if (name === undefined) throw nameMissing()
      if (!isRepositoryName(name))
        throw new Problem('invalid_request', `A name is ${repositoryNameForm}.`)
      sources.require(principal, source)
      // Told before the wait for a turn; what counts is whether it is free afterwards.
      if (await isNameTaken(db, name)) throw nameTaken(name)
      const owner = wanted.owner ?? principal
      const signals = wanted.signal ? [closing.signal, wanted.signal] : [closing.signal]
      using starting = new DisposableStack()
      starting.use(await turns.acquire([owner.username], AbortSignal.any(signals)))
      if (closing.signal.aborted) throw closed()
      const id = newId(clock.now())
      const over = Promise.withResolvers<void>()
      running.set(id, over.promise)
      starting.defer(() => {
        running.delete(id)
        over.resolve()
      })
      const row: ImportRow = {
        repositoryId: id,
        name,
        nameKey: name.toLowerCase(),
        ownerTokenId: owner.id,
        ownerUsername: owner.username,
        source: source.kind === 'remote' ? source.shown : source.path,
        phase: 'counting',
        progress: 0,
        faultCode: null,
        faultDetail: null,
        startedAt: clock.now(),
        endedAt: null,
      }
      const held = await directories.hold(id)
      if (!held) throw new Error(`The lock of a new import (${id}) is somebody else's.`)
      starting.use(held)
      await reserve(row)
      const taken = starting.move()
      const ended = work(principal, row, source, wanted).finally(() => taken.dispose())
      // Whoever awaits it learns of a fault; without this line it would also end the program.
      ended.catch(() => {})
      const path = directories.pathOf(id)
      const described = {
        id,
        name,
        path,
        createdAt: row.startedAt,
        ownerTokenId: owner.id,
        state: 'importing',
      } as const
      return { name, ended, describe: () => repositories.describe(described) }
    },

    /** Ends what dead processes left of their imports, and forgets why older ones failed. */
    async sweep(): Promise<void> {
      for (const { repositoryId: id } of await listRunningImports(db)) {
        if (running.has(id)) continue
        // On a full disk, say. One that cannot be cleared away keeps its name, and nothing else, until it can.
        await end(id).catch((fault) =>
          log.error({ err: fault, repositoryId: id }, 'a dead import could not be cleared away'),
        )
      }
      await deleteImportsEndedBefore(db, clock.now() - failedForMs)
    },

    /** Begins no more imports, waits for those that are under way, for a time, and gives them up then. */
    async stop(timeoutMs: number): Promise<void> {
      closing.abort()
      const timer = setTimeout(() => {
        stopping.abort(
          importFailed('The import was cut short by a stop of the service; start it again.'),
        )
      }, timeoutMs)
      await Promise.all(running.values())
      clearTimeout(timer)
    },
  }
}

function given(): Problem {
  return importFailed('The import was given up, since its repository was deleted.')
}

function closed(): Problem {
  const detail = 'The service is stopping; try again in a moment.'
  return new Problem('git_busy', detail, { retryAfterSeconds: 10 })
}

function nameMissing(): Problem {
  const detail = 'The source has no name that a repository could have; give one.'
  return new Problem('invalid_request', detail, { errors: [{ pointer: '/name', detail }] })
}
