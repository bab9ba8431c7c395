import { mkdtemp, rm, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { forEachConcurrently } from '#base/for-each-concurrently.ts'
import type { Log } from '#base/log.ts'
import { connect } from '#database/database.ts'
import { gitCommands } from '#git/process/commands.ts'
import type { Git } from '#git/process/git-process.ts'
import { listAllLfsObjects } from '#repositories/lfs-object-store.ts'
import { fsck } from '../fsck.ts'
import { type BackupSource, createSource, findBackup, readOwnManifest } from './backup-source.ts'
import { loadRows } from './load-rows.ts'
import {
  type BackedUpRepository,
  BackupError,
  type BackupFile,
  lfsIdIn,
  lockFiles,
  manifestFile,
  pathOfBackedUpLfs,
} from './manifest.ts'
import { lockFolder } from './open-folder.ts'
import { readRefsFile, writeRefs } from './refs-file.ts'
import { listFolder, type Tree } from './tree.ts'

/** A fault that prevents the restore of a backup, or of a part of it. */
type Fault = { file?: string; repository?: string; fault: string }

type Dependencies = { git: Git; log: Log }

type Options = { of: string; report: (progress: string) => void; signal: AbortSignal }

type Check = Dependencies & {
  source: BackupSource
  scratch: string
  signal: AbortSignal
  report: (progress: string) => void
  faults: Fault[]
}

const maxConcurrentReads = 4
const maxConcurrentChecks = 2
const maxFaultsPerRepository = 20
const minScratchBytes = 64 * 1024 * 1024

/**
 * Verifies that a backup can be restored: every file matches the manifest, the rows load into a database,
 * and each repository has all objects that its refs need. Does not change the backup.
 */
export async function verify(dependencies: Dependencies, { of, report, signal }: Options) {
  const startedAt = performance.now()
  const root = await findBackup(of)
  const tree = await listFolder(root)
  const faults: Fault[] = tree.others.map((file) => ({
    file,
    fault: 'is neither a file nor a folder; svc creates only those',
  }))
  using _folderLock = await lockFolder(root)
  const manifest = await readOwnManifest(root).catch((error) => {
    if (!(error instanceof BackupError)) throw error
    faults.push({ file: manifestFile, fault: error.message })
  })
  if (!manifest) return { faults, unknown: [], seconds: secondsSince(startedAt) }
  const source = createSource(root, manifest)
  const scratch = await makeScratch(source)
  try {
    const check: Check = { ...dependencies, source, scratch, signal, report, faults }
    const damaged = await checkFiles(check, tree)
    await checkRows(check, damaged)
    const refs = await checkRepositories(check, damaged)
    return {
      id: manifest.id,
      createdAt: manifest.createdAt,
      files: manifest.files.length,
      bytes: manifest.files.reduce((sum, { bytes }) => sum + bytes, 0),
      rows: manifest.tables.reduce((sum, { rows }) => sum + rows, 0),
      repositories: manifest.repositories.length,
      refs,
      faults,
      /** Files that are not part of the backup: remains of an interrupted one, or foreign files. */
      unknown: listUnknown(source, tree),
      /** Names of repositories whose directories were lost before the backup. */
      lost: manifest.repositories.filter(({ refs }) => refs === null).map(({ name }) => name),
      seconds: secondsSince(startedAt),
    }
  } finally {
    await rm(scratch, { recursive: true, force: true, maxRetries: 5 })
  }
}

async function checkFiles(check: Check, tree: Tree): Promise<Set<string>> {
  const { source, signal, report, faults } = check
  const { files } = source.manifest
  const damaged = new Set<string>()
  let done = 0
  await forEachConcurrently(maxConcurrentReads, files, async (file) => {
    signal.throwIfAborted()
    const fault = (await source.faultOf(file, tree)) ?? lfsFaultOf(file)
    report(`Read ${++done} of ${files.length} files`)
    if (fault === undefined) return
    damaged.add(file.path)
    const [, id] = /^repositories\/(\w+)\//.exec(file.path) ?? []
    faults.push({ file: file.path, fault, ...nameOf(check, id) })
  })
  return damaged
}

async function checkRows({ source, scratch, log, faults, report }: Check, damaged: Set<string>) {
  // Damaged files of rows are already reported.
  if ([...damaged].some((path) => path.startsWith('rows/'))) return
  report('Restoring rows into a scratch database')
  const db = connect({ dataDir: scratch, url: undefined, log })
  try {
    await loadRows(db, 'sqlite', source)
    const files = new Set(source.manifest.files.map(({ path }) => path))
    for (const [id, rows] of await listAllLfsObjects(db))
      for (const row of rows)
        if (!files.has(pathOfBackedUpLfs(row)))
          faults.push({ ...nameOf({ source }, id), fault: `lacks the Git LFS object ${row.oid}` })
  } catch (error) {
    if (!(error instanceof BackupError)) throw error
    faults.push({ fault: error.message })
  } finally {
    await db.destroy()
  }
}

/** Checks all repositories, and returns the number of their refs. */
async function checkRepositories(check: Check, damaged: Set<string>): Promise<number> {
  const { source, signal, report, faults } = check
  const { repositories } = source.manifest
  let [refs, done] = [0, 0]
  await forEachConcurrently(maxConcurrentChecks, repositories, async (repository) => {
    signal.throwIfAborted()
    const files = source.objectsOf(repository.id).map(({ path }) => path)
    const isDamaged = [`refs/${repository.refs}`, ...files].some((path) => damaged.has(path))
    if (damaged.has(`refs/${repository.refs}`)) {
      faults.push({ ...nameOf(check, repository.id), fault: 'its refs are damaged' })
    }
    if (repository.refs !== null && !isDamaged) refs += await checkRepository(check, repository)
    report(`Checked ${++done} of ${repositories.length} repositories`)
  })
  return refs
}

async function checkRepository(
  check: Check,
  { id, refs, objectFormat }: BackedUpRepository,
): Promise<number> {
  const { source, scratch, git, signal, faults } = check
  const directory = join(scratch, `${id}.git`)
  const path = `refs/${refs}`
  try {
    const expected = readRefsFile(path, await source.read(path))
    await git.run(gitCommands.init(directory, objectFormat), { owner: scratch })
    await writeRefs(directory, expected)
    const hasObjects = source.objectsOf(id).length > 0
    const objects = hasObjects
      ? { GIT_OBJECT_DIRECTORY: join(source.root, 'repositories', id) }
      : {}
    const { exitCode, lines } = await fsck(git, directory, {
      variables: objects,
      owner: scratch,
      signal,
    })
    const messages = lines.length > 0 ? lines : [`git fsck failed with exit code ${exitCode}`]
    if (exitCode !== 0)
      for (const fault of messages.slice(0, maxFaultsPerRepository))
        faults.push({ ...nameOf(check, id), fault })
    return expected.size - 1 // Without HEAD.
  } catch (error) {
    if (!(error instanceof BackupError)) throw error
    faults.push({ ...nameOf(check, id), fault: error.message })
    return 0
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

function lfsFaultOf({ path, sha256 }: BackupFile): string | undefined {
  const oid = lfsIdIn(path)
  return oid === undefined || oid === sha256 ? undefined : 'has other bytes than its name says'
}

function nameOf(
  { source }: Pick<Check, 'source'>,
  id: string | undefined,
): { repository?: string } {
  const repository = source.manifest.repositories.find((candidate) => candidate.id === id)
  return repository ? { repository: repository.name } : {}
}

function listUnknown({ manifest }: BackupSource, { files }: Tree): string[] {
  const expected = new Set([manifestFile, ...lockFiles, ...manifest.files.map(({ path }) => path)])
  return [...files.keys()].filter((path) => !expected.has(path)).sort()
}

// Rows take more space in a database than in a backup, where they have no indexes.
async function makeScratch({ manifest }: BackupSource): Promise<string> {
  const rows = manifest.files.filter(({ path }) => /^(rows|refs)\//.test(path))
  const needed = minScratchBytes + 4 * rows.reduce((sum, { bytes }) => sum + bytes, 0)
  for (const folder of [tmpdir(), '/var/tmp']) {
    const { bavail, bsize } = await statfs(folder).catch(() => ({ bavail: 0, bsize: 0 }))
    if (bavail * bsize < needed) continue
    return mkdtemp(join(folder, 'svc-verify-'))
  }
  const mib = Math.ceil(needed / 1024 ** 2)
  throw new BackupError(
    `Verifying needs ${mib} MiB in a temporary folder; set TMPDIR to one with enough space.`,
  )
}

function secondsSince(startedAt: number): number {
  return Math.round(performance.now() - startedAt) / 1000
}
