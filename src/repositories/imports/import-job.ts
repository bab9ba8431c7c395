import { createPoller } from '#base/concurrency/poller.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import type { ObjectFormat } from '#base/object-id.ts'
import { Problem } from '#base/problem.ts'
import type { FreeSpace } from '#config/free-space.ts'
import type { PlainSettings } from '#config/settings.ts'
import { importFailed, importTooLarge } from '#git/import/import-error.ts'
import { importRefs, type OpenedSource } from '#git/import/import-refs.ts'
import { type Progress, readProgress } from '#git/import/progress.ts'
import { findLfsObjects } from '#git/objects/lfs-pointers.ts'
import { readObjectFormat } from '#git/objects/object-format.ts'
import { hasIndexedPack, packBytes } from '#git/objects/packs.ts'
import { backgroundCpuSeconds } from '#git/process/git-process.ts'
import type { Directories } from '../directories/directories.ts'
import { importLfsObjects, type LfsImportDependencies, type LfsWatch } from './import-lfs.ts'
import type { ImportSources } from './import-sources.ts'

/** The dependencies of an import job. */
export type JobDependencies = LfsImportDependencies & {
  directories: Directories
  sources: ImportSources
  freeSpace: FreeSpace
  settings: PlainSettings
  faultPoint: FaultPoint
}

export type WatchedImport = Disposable &
  LfsWatch & {
    progress: () => Progress
    /** Reports a line of git's progress output, or the empty string for other progress. */
    onProgress: (line: string) => void
  }

const pollIntervalMs = 500
const processingStallFactor = 10

/** The owner mark of an import's processes: see git/process/orphans.ts. */
export function importOwner(id: string): string {
  return `import:${id}`
}

/**
 * Creates the draft of a repository from a source: fetched, checked, with its HEAD, its object format, and those objects of Git
 * LFS that can be read. Returns how many others its files name. When this throws, the caller must discard the draft.
 */
export async function makeDraft(
  id: string,
  open: (watched: WatchedImport) => Promise<OpenedSource>,
  watched: WatchedImport,
  dependencies: JobDependencies,
): Promise<{ missingLfsObjects: number; objectFormat: ObjectFormat }> {
  const { git, directories, freeSpace, settings, faultPoint } = dependencies
  // Created while the source is opened, and awaited on every path: a discard must not run before it is complete.
  const drafted = directories.draft(id, 'sha1').then(() => directories.markDraftForDeletion(id))
  const settled = drafted.catch(() => {})
  await using _drafted = { [Symbol.asyncDispose]: () => settled }
  await using opened = await open(watched)
  faultPoint('import.copied')
  const mirroring = {
    git,
    owner: importOwner(id),
    limits: {
      memoryMaxBytes: settings.pushMemoryMaxBytes,
      fileMaxBytes: settings.importMaxBytes,
      // The import has a limit of wall-clock time instead, which does not depend on the number of threads.
      cpuMaxSeconds: backgroundCpuSeconds,
    },
    signal: watched.signal,
    onProgress: watched.onProgress,
  }
  try {
    const directory = directories.draftOf(id)
    await drafted
    await importRefs(opened, directory, mirroring)
    if ((await packBytes(directory)) > settings.importMaxBytes) {
      throw importTooLarge(settings.importMaxBytes)
    }
    // A quick import may have finished between two polls.
    await freeSpace.require()
    const { owner, limits, signal } = mirroring
    const pointers = await findLfsObjects(git, directory, {
      options: { owner, limits },
      signal,
      onBatch: () => watched.onProgress(''),
    })
    faultPoint('import.fetched')
    const draft = { id, directory, owner, pointers, source: opened.lfs }
    return {
      missingLfsObjects: await importLfsObjects(draft, watched, dependencies),
      objectFormat: await readObjectFormat(directory),
    }
  } catch (error) {
    watched.signal.throwIfAborted()
    throw opened.fault() ?? error
  }
}

/**
 * Watches an import. Its signal is aborted when the caller's is, when it takes too long or stalls, when it grows too
 * large, or when free disk space falls short.
 */
export function watchImport(
  id: string,
  signals: AbortSignal[],
  { directories, freeSpace, settings, lfsObjects }: JobDependencies,
): WatchedImport {
  const { importSeconds, importStallSeconds, importMaxBytes } = settings
  const own = new AbortController()
  const lfs = new AbortController()
  let hasFetched = false
  const late = setTimeout(() => {
    const reason = importFailed(`The import took longer than ${importSeconds} seconds.`)
    const ending = hasFetched ? lfs : own
    ending.abort(reason)
  }, importSeconds * 1000)
  let latest: Progress = { phase: 'counting', percent: 0 }
  let movedAt = performance.now()
  let arrived = 0

  async function check(): Promise<void> {
    if (hasFetched) return
    const bytes = await packBytes(directories.draftOf(id)).catch(() => 0)
    if (bytes !== arrived) movedAt = performance.now()
    arrived = bytes
    // Then only this server's own work remains, and writing many refs takes a while.
    const stallFactor = (await hasIndexedPack(directories.draftOf(id))) ? processingStallFactor : 1
    if (performance.now() - movedAt > stallFactor * importStallSeconds * 1000) {
      own.abort(importFailed(`The source sent no data for ${importStallSeconds} seconds.`))
    }
    if (freeSpace.isShort()) {
      own.abort(
        new Problem(
          'storage_full',
          'The server does not have enough free disk space for this import.',
        ),
      )
    }
    if (bytes > importMaxBytes) own.abort(importTooLarge(importMaxBytes))
    const left = await lfsObjects.bytesLeft(id)
    if (left && bytes > left.bytes) own.abort(left.problem)
  }

  const poller = createPoller({
    intervalMs: pollIntervalMs,
    run: check,
    onError: (error) => own.abort(error),
  })
  poller.wake()

  const signal = AbortSignal.any([own.signal, ...signals])
  return {
    signal,
    progress: () => latest,
    onProgress(line) {
      movedAt = performance.now()
      const read = readProgress(line)
      if (read && read.percent >= latest.percent) latest = read
    },
    beginLfs() {
      hasFetched = true
      latest = { phase: 'lfs', percent: 0 }
      return AbortSignal.any([lfs.signal, signal])
    },
    onLfsProgress(percent) {
      latest = { phase: 'lfs', percent }
    },
    [Symbol.dispose]() {
      clearTimeout(late)
      void poller[Symbol.asyncDispose]()
    },
  }
}
