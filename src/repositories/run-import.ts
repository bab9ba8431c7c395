import type { Principal } from '#access/principal.ts'
import type { Log } from '#base/log.ts'
import { type Problem, toProblem } from '#base/problem.ts'
import type { ImportRow } from '#database/schema.ts'
import type { Progress } from '#git/import/progress.ts'
import { type JobDependencies, makeDraft, watchImport } from './import-job.ts'
import type { ImportRecords } from './import-records.ts'
import type { Source } from './source-address.ts'
import type { Store } from './store/store.ts'

type Dependencies = JobDependencies & {
  store: Pick<Store, 'adopt'>
  records: ImportRecords
  log: Log
  /** Cancels all imports, with its reason. */
  stopping: AbortSignal
}

export type ImportOptions = {
  /** URL or path; see parseSource. */
  source: string
  /** The name of the repository; by default that of the source. */
  name: string | undefined
  /** The owner; by default the caller. */
  owner?: Principal
  /** Cancels the import, with its reason. */
  signal?: AbortSignal
  /** Whether a failure is recorded for later requests. */
  recordsFailure: boolean
  /** Called about once a second. */
  onProgress?: (progress: Progress) => void
}

/** Runs an import to its end, and records that. Throws the Problem of a failure, after its files are removed. */
export type RunImport = (
  principal: Principal,
  row: ImportRow,
  source: Source,
  options: ImportOptions,
) => Promise<void>

export function createRunImport(dependencies: Dependencies): RunImport {
  const { directories, store, sources, settings, records, faultPoint, log, stopping } = dependencies

  async function complete(
    principal: Principal,
    row: ImportRow,
    source: Source,
    options: ImportOptions,
  ): Promise<void> {
    const { repositoryId: id } = row
    const cancelled = new AbortController()
    const signals = [stopping, cancelled.signal]
    if (options.signal) signals.push(options.signal)
    using watched = watchImport(id, signals, dependencies)
    await using _recording = records.watchProgress(
      row,
      watched.progress,
      cancelled,
      options.onProgress,
    )
    const open = () =>
      sources.open(principal, source, {
        scratch: directories.scratchOf(id, 'source'),
        maxBytes: settings.importMaxBytes,
        signal: watched.signal,
        onArrival: () => watched.onProgress(''),
      })
    const { missingLfsObjects } = await makeDraft(id, open, watched, dependencies)
    watched.signal.throwIfAborted()
    // Removes the copy of a local source at the same time, to save waiting.
    const [completeAdoption] = await Promise.all([
      store.adopt(id),
      directories.removeScratch(id, 'source'),
    ])
    faultPoint('import.placed')
    const imported = { missingLfsObjects, completeAdoption }
    await records.complete(options.owner ?? principal, row, imported)
    faultPoint('import.recorded')
    await directories.unmarkForDeletion(id)
  }

  async function fail(row: ImportRow, problem: Problem, options: ImportOptions): Promise<void> {
    const { repositoryId: id } = row
    const { name, source: from } = row
    const about = { repositoryId: id, name, source: from, reason: problem.message }
    const cause = problem.cause === undefined ? {} : { err: problem.cause }
    // An asynchronous import has no response that would show a bug.
    const isBug = problem.code === 'internal_error'
    log[isBug ? 'error' : 'info']({ ...about, ...cause }, 'import failed')
    await records
      .remove(id, options.recordsFailure ? problem : undefined)
      .catch((fault) =>
        log.error({ err: fault, ...about }, 'import not cleaned up; retrying later'),
      )
  }

  return async (principal, row, source, options) => {
    try {
      await complete(principal, row, source, options)
      await directories.discard(row.repositoryId)
    } catch (error) {
      const problem = toProblem(error)
      await fail(row, problem, options)
      throw problem
    }
  }
}
