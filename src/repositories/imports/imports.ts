import { isRepositoryName, repositoryNameForm } from '#access/names.ts'
import type { Principal } from '#access/principal.ts'
import { createFairLimiter } from '#base/concurrency/fair-limiter.ts'
import { newId } from '#base/ids.ts'
import { Problem, refusedName } from '#base/problem.ts'
import type { Nodes } from '#database/nodes/nodes.ts'
import type { ImportRow } from '#database/schema.ts'
import { importFailed } from '#git/import/import-error.ts'
import { endOrphans } from '#git/process/orphans.ts'
import { invalid } from '#http/validation.ts'
import { newRepository, type RepositoryDescription } from '../describe-repository.ts'
import { deleteImportsEndedBefore, listRunningImports } from '../import-store.ts'
import { requirePlace } from '../place-name.ts'
import type { Repositories } from '../repositories.ts'
import { nameTaken } from '../repository-errors.ts'
import { isNameTaken } from '../repository-store.ts'
import { importOwner } from './import-job.ts'
import { createImportSteps, type ImportDependencies, type ImportOptions } from './run-import.ts'
import { parseSource } from './source-address.ts'

/**
 * Imports repositories: reserves the name, creates a draft from the source in staging, and moves it into place when it
 * is complete. A failed import leaves no reserved name and no files.
 */
export type Imports = {
  /**
   * Starts an import; when this returns, the name is reserved, and `ended` settles when the import ends. Throws a
   * Problem for an invalid or forbidden source, a name that is taken, and when too many imports are running.
   */
  start: (
    principal: Principal,
    options: ImportOptions,
  ) => Promise<{
    name: string
    ended: Promise<void>
    describe: () => Promise<RepositoryDescription>
  }>
  /** Cleans up the imports of dead processes, and deletes the records of old failures. */
  sweep: () => Promise<void>
  /** Starts no more imports, waits for the running ones, and cancels them after the timeout. */
  stop: (timeoutMs: number) => Promise<void>
}

type Dependencies = ImportDependencies & {
  nodes: Nodes
  repositories: Pick<Repositories, 'describe'>
}

const failureRetentionMs = 24 * 60 * 60 * 1000

export function createImports(dependencies: Dependencies): Imports {
  const { db, directories, sources, repositories, nodes, clock, log, settings } = dependencies
  const limiter = createFairLimiter({
    overall: settings.maxConcurrentImports,
    perKey: settings.maxConcurrentImports,
    waiting: settings.gitWaiting,
    waitMs: settings.gitWaitSeconds * 1000,
  })
  const closing = new AbortController()
  const stopping = new AbortController()
  const steps = createImportSteps(dependencies, stopping.signal)
  const running = new Map<string, Promise<void>>()

  /** Ends an import whose program has died; others are left alone. */
  async function end(id: string): Promise<void> {
    using abandoned = await directories.hold(id)
    if (!abandoned) return
    await endOrphans(importOwner(id))
    await steps.remove(
      id,
      importFailed('The import was interrupted because its program ended. Start it again.'),
    )
  }

  return {
    async start(principal, options) {
      const source = parseSource(options.source)
      const name = options.name ?? source.nameHint
      if (name === undefined) throw nameMissing()
      if (!isRepositoryName(name))
        throw invalid([{ pointer: '/name', detail: refusedName(name, repositoryNameForm) }])
      sources.require(principal, source)
      const place = await requirePlace(db, principal, name)
      // Fails early; after the wait for the limiter, the name is checked again.
      if (await isNameTaken(db, name)) throw nameTaken(name)
      const owner = options.owner ?? principal
      const signals = options.signal ? [closing.signal, options.signal] : [closing.signal]
      using starting = new DisposableStack()
      starting.use(await limiter.acquire([owner.username], AbortSignal.any(signals)))
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
        node: nodes.own,
      }
      const held = await directories.hold(id)
      if (!held) throw new Error(`The lock of a new import (${id}) is held by another process.`)
      starting.use(held)
      await steps.reserve(principal, row, place)
      const resources = starting.move()
      const ended = steps.run(principal, row, source, options).finally(() => resources.dispose())
      // Prevents an unhandled rejection; the caller still sees the error through `ended`.
      ended.catch(() => {})
      const described = {
        ...newRepository(owner, {
          ...{ id, name, namespaceId: place?.id ?? null },
          createdAt: row.startedAt,
          objectFormat: null,
        }),
        path: directories.pathOf(id),
        state: 'importing',
      } as const
      return { name, ended, describe: () => repositories.describe(described) }
    },

    async sweep() {
      for (const { repositoryId: id, node: owner } of await listRunningImports(db)) {
        const isElsewhere = owner !== nodes.own && (await nodes.isRunning(owner))
        if (running.has(id) || isElsewhere) continue
        // For example on a full disk. Until the clean-up succeeds, the name stays reserved.
        await end(id).catch((fault) =>
          log.error({ err: fault, repositoryId: id }, 'abandoned import not cleaned up'),
        )
      }
      await deleteImportsEndedBefore(db, clock.now() - failureRetentionMs)
    },

    async stop(timeoutMs) {
      closing.abort()
      using _cutOff = setTimeout(() => {
        stopping.abort(
          importFailed('The import was interrupted because the service stopped. Start it again.'),
        )
      }, timeoutMs)
      await Promise.all(running.values())
    },
  }
}

function closed(): Problem {
  const detail = 'The service is stopping. Try again in a moment.'
  return new Problem('git_busy', detail, { retryAfterSeconds: 10 })
}

function nameMissing(): Problem {
  const detail = 'No valid repository name can be derived from the source. Set the name.'
  return new Problem('invalid_request', detail, { errors: [{ pointer: '/name', detail }] })
}
