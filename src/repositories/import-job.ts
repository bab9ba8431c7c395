import { setTimeout as sleep } from 'node:timers/promises'
import type { FaultPoint } from '../base/fault-points.ts'
import { Problem } from '../base/problem.ts'
import type { FreeSpace } from '../config/free-space.ts'
import type { PlainSettings } from '../config/settings.ts'
import { importFailed, importTooLarge } from '../git/import/import-error.ts'
import { fetchMirror, type Mirroring, readSourceHead, setHead } from '../git/import/mirror.ts'
import { mirrorCopy } from '../git/import/mirror-copy.ts'
import { type Progress, readProgress } from '../git/import/progress.ts'
import { backgroundCpuSeconds, type Git } from '../git/process/git-process.ts'
import { hasIndexedPack, packBytes } from '../git/refs/refs.ts'
import type { Directories } from './directories.ts'
import type { ImportSources, OpenedSource } from './import-sources.ts'

/** What a job needs of the world. */
export type JobDependencies = {
  git: Git
  directories: Directories
  sources: ImportSources
  freeSpace: FreeSpace
  settings: PlainSettings
  faultPoint: FaultPoint
}

export type WatchedImport = Disposable & {
  signal: AbortSignal
  progress: () => Progress
  /** Takes a line of git's progress, or notices that something has moved. */
  onProgress: (line: string) => void
}

const lookEveryMs = 500
const ownWorkPatience = 10

/** The mark by which the processes of an import are known: see git/process/orphans.ts. */
export function importOwner(id: string): string {
  return `import:${id}`
}

/**
 * Makes the draft of a repository from a source: fetched whole, checked, with its HEAD. What goes wrong is
 * thrown; the draft is then to be discarded.
 */
export async function makeDraft(
  id: string,
  open: (watched: WatchedImport) => Promise<OpenedSource>,
  watched: WatchedImport,
  { git, directories, freeSpace, settings, faultPoint }: JobDependencies,
): Promise<void> {
  // Made while the source is opened; whoever discards it must find it whole.
  const drafted = directories.draft(id).then(() => directories.doomDraft(id))
  const settled = drafted.catch(() => {})
  await using _drafted = { [Symbol.asyncDispose]: () => settled }
  await using opened = await open(watched)
  faultPoint('import.copied')
  const mirroring: Mirroring = {
    git,
    owner: importOwner(id),
    limits: {
      memoryMaxBytes: settings.pushMemoryMaxBytes,
      fileMaxBytes: settings.importMaxBytes,
      // An import as a whole has a limit of time, which counts no threads.
      cpuMaxSeconds: backgroundCpuSeconds,
    },
    signal: watched.signal,
    onProgress: watched.onProgress,
  }
  try {
    const { from } = opened
    const directory = directories.draftOf(id)
    const head = 'copy' in from ? from.head : await readSourceHead(from.remote, mirroring)
    await drafted
    if ('copy' in from) await mirrorCopy(from.copy, directory, mirroring)
    else await fetchMirror(from.remote, directory, mirroring)
    await setHead(directory, head)
    if ((await packBytes(directory)) > settings.importMaxBytes) {
      throw importTooLarge(settings.importMaxBytes)
    }
    // A quick one may have come between two looks.
    await freeSpace.require()
  } catch (error) {
    watched.signal.throwIfAborted()
    throw opened.fault() ?? error
  }
  faultPoint('import.fetched')
}

/**
 * Watches over an import: its signal is aborted when the caller's is, when it takes too long, when nothing
 * moves, when it grows too large or takes the space that is to be kept free.
 */
export function watchImport(
  id: string,
  signals: AbortSignal[],
  { directories, freeSpace, settings }: JobDependencies,
): WatchedImport {
  const { importSeconds, importStallSeconds, importMaxBytes } = settings
  const own = new AbortController()
  const ended = new AbortController()
  const late = setTimeout(() => {
    own.abort(importFailed(`The import took longer than ${importSeconds} seconds.`))
  }, importSeconds * 1000)
  let latest: Progress = { phase: 'counting', percent: 0 }
  let movedAt = performance.now()
  let arrived = 0

  async function look(): Promise<void> {
    const bytes = await packBytes(directories.draftOf(id)).catch(() => 0)
    if (bytes !== arrived) movedAt = performance.now()
    arrived = bytes
    // What remains then is mostly this server's own work; to write many refs takes a while.
    const patience = (await hasIndexedPack(directories.draftOf(id))) ? ownWorkPatience : 1
    if (performance.now() - movedAt > patience * importStallSeconds * 1000) {
      own.abort(importFailed(`Nothing came from the source for ${importStallSeconds} seconds.`))
    }
    if (freeSpace.isShort()) {
      own.abort(
        new Problem('storage_full', 'The server has too little space left for this import.'),
      )
    }
    if (bytes > importMaxBytes) own.abort(importTooLarge(importMaxBytes))
  }

  async function keepLooking(): Promise<void> {
    while (!ended.signal.aborted) {
      await look()
      await sleep(lookEveryMs, undefined, { signal: ended.signal }).catch(() => {})
    }
  }
  keepLooking().catch((error) => own.abort(error))

  return {
    signal: AbortSignal.any([own.signal, ...signals]),
    progress: () => latest,
    onProgress(line) {
      movedAt = performance.now()
      const read = readProgress(line)
      if (read && read.percent >= latest.percent) latest = read
    },
    [Symbol.dispose]() {
      clearTimeout(late)
      ended.abort()
    },
  }
}
