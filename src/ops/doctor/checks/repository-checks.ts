import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf } from '#base/error-code.ts'
import { shellWord } from '#base/shell-word.ts'
import { hasRefs, hasReftable } from '#git/refs/refs.ts'
import type { Check } from '../check.ts'
import type { DoctorContext } from '../context.ts'
import { type KnownRepository, listAllRepositories, readUnfinished } from '../doctor-store.ts'
import {
  countOrNo,
  type Finding,
  type Findings,
  fault,
  firstOf,
  ok,
  orOk,
  warning,
} from '../finding.ts'
import { deletedFolderOf, folderOf, listFolders, placedAt } from './repository-folders.ts'

const inStore = 'Repositories are in the store of SVC_STORE; directories are caches.'
// A running server creates or deletes a repository in less time; meanwhile a directory has no row.
const settledMs = 60_000

/** Checks that every row has its directory, and every directory its row. */
export const repositoriesCheck: Check = {
  id: 'repositories',
  title: 'rows against directories',
  isLong: true,
  async run(context) {
    if (context.setting('store')) return ok(inStore)
    // Rows before directories: a new repository gets its directory first.
    const rows = await context.read(listAllRepositories)
    const { paths, strays } = await listFolders(context)
    const ids = new Set(paths.keys())
    const missing = await confirmMissing(
      context,
      rows.filter(({ id, hasDirectory }) => hasDirectory && !ids.has(id)),
    )
    const unknown = await confirmUnknown(context, paths, rows)
    const findings = [firstOf(missing), firstOf(unknown), firstOf(strays.map(toStray))]
    return orOk(
      findings,
      `${countOrNo(rows.length, 'row')}, ${countOrNo(ids.size, 'directory', 'directories')}.`,
    )
  },
}

// Reads again, because a running server may have deleted the repositories in between.
async function confirmMissing(
  context: DoctorContext,
  suspects: KnownRepository[],
): Promise<Findings> {
  if (suspects.length === 0) return []
  const currentIds = new Set((await context.read(listAllRepositories)).map(({ id }) => id))
  const findings: Findings[] = []
  const dataDir = context.setting('dataDir')
  for (const { id, name, isDeleted } of suspects) {
    const both = [folderOf(dataDir, id), deletedFolderOf(dataDir, id)] as const
    const placed = await Promise.all(both.map(placedAt))
    if (!currentIds.has(id) || placed.some((since) => since !== undefined)) continue
    const [path, deletedPath] = both
    findings.push(
      isDeleted
        ? fault(
            `The deleted repository ${name} has lost its directory, ${deletedPath}.`,
            `Restore the directory from a backup, or purge the repository: svc deleted-repos purge ${id}`,
          )
        : fault(
            `${name} has lost its directory, ${path}.`,
            `Restore the directory from a backup, or delete the repository: svc repos delete ${shellWord(name)}`,
          ),
    )
  }
  return findings
}

async function confirmUnknown(
  context: DoctorContext,
  paths: Map<string, string>,
  rows: KnownRepository[],
): Promise<Findings> {
  const rowIds = new Set(rows.map(({ id }) => id))
  const suspects = [...paths].filter(([id]) => !rowIds.has(id))
  if (suspects.length === 0) return []
  const currentIds = new Set((await context.read(listAllRepositories)).map(({ id }) => id))
  const before = context.isServed() ? Date.now() - settledMs : Number.POSITIVE_INFINITY
  const findings: Findings[] = []
  for (const [id, path] of suspects) {
    const since = await placedAt(path)
    if (currentIds.has(id) || since === undefined || since > before) continue
    const isUsed = await hasRefs(path, 'any').catch(() => true)
    const action = isUsed ? 'moves it to lost+found' : 'removes it, as it is empty'
    findings.push(
      warning(
        `The database does not know ${path}.`,
        `The next start of the service ${action}; if its row was lost, restore the database from a backup first.`,
      ),
    )
  }
  return findings
}

function toStray(path: string): Finding {
  const fix = `mv ${shellWord(path)} to a place outside the data directory.`
  return fault(`${path} is not the directory of a repository, and can prevent a start.`, fix)
}

/** Checks the files that Git needs in each repository, and for configuration that svc did not write. */
export const repositoryFilesCheck: Check = {
  id: 'repository-files',
  title: 'HEAD, configuration and borrowed objects',
  isLong: true,
  async run(context) {
    if (context.setting('store')) return ok(inStore)
    const { paths } = await listFolders(context)
    const findings: Findings[] = []
    for (const path of paths.values()) findings.push(await checkFiles(path))
    return orOk(
      firstOf(findings),
      `${countOrNo(paths.size, 'repository', 'repositories')}, as expected.`,
    )
  },
}

async function checkFiles(path: string): Promise<Findings> {
  const read = (name: string) => readFile(join(path, name), 'utf8').catch(toAbsence)
  try {
    const [head, config, alternates, shallow] = await Promise.all(
      ['HEAD', 'config', 'objects/info/alternates', 'shallow'].map(read),
    )
    // A missing directory was just deleted.
    if (head === undefined && (await placedAt(path)) === undefined) return []
    if (hasReftable(path)) return reftableFinding(path)
    return [
      headFindings(path, head),
      configFindings(path, config),
      await folderFindings(path),
      borrowFindings(path, alternates, shallow),
    ]
  } catch (error) {
    return fault(`${path} cannot be read (${codeOf(error) ?? error}).`, `ls -la ${shellWord(path)}`)
  }
}

function reftableFinding(path: string): Findings {
  return fault(
    `${path} keeps its refs in the format "reftable", which svc does not read.`,
    `Stop the service, then, with git 2.46 or newer: git --git-dir=${shellWord(path)} refs migrate --ref-format=files`,
  )
}

function headFindings(path: string, head: string | undefined): Findings {
  if (head !== undefined && /^ref: refs\/heads\/\S+\n?$/.test(head)) return []
  return fault(
    `${path} has ${head === undefined ? 'no HEAD' : 'a damaged HEAD'}, so Git finds no repository there.`,
    `printf 'ref: refs/heads/main\\n' > ${shellWord(join(path, 'HEAD'))} (with its default branch in place of main)`,
  )
}

// Git requires these in every repository: gitrepository-layout(5).
async function folderFindings(path: string): Promise<Findings> {
  const findings: Findings[] = []
  for (const name of ['objects', 'refs']) {
    const folder = join(path, name)
    const stats = await stat(folder).catch(() => undefined)
    if (stats?.isDirectory() || (await placedAt(path)) === undefined) continue
    const fix =
      name === 'refs'
        ? `mkdir -m 700 ${shellWord(folder)}`
        : `Restore ${shellWord(folder)} from a backup.`
    findings.push(fault(`${path} has no folder ${name}, so Git finds no repository there.`, fix))
  }
  return findings
}

// The lines that `git init --bare` writes, depending on the file system and the object format.
const usual =
  /^(\[core\]|(filemode|bare|symlinks|ignorecase|precomposeunicode) = (true|false)|repositoryformatversion = [01]|\[extensions\]|objectformat = sha(1|256))$/i
const plainConfig =
  '[core]\\n\\trepositoryformatversion = 0\\n\\tfilemode = true\\n\\tbare = true\\n'
const sha256Config = `${plainConfig.replace(' = 0', ' = 1')}[extensions]\\n\\tobjectformat = sha256\\n`

function configFindings(path: string, config: string | undefined): Findings {
  const lines = (config ?? '').split('\n').map((line) => line.trim())
  const odd = lines.find((line) => line !== '' && !/^[#;]/.test(line) && !usual.test(line))
  if (config !== undefined && odd === undefined) return []
  const file = join(path, 'config')
  const writing = (content: string) => `printf '${content}' > ${shellWord(file)}`
  return warning(
    config === undefined
      ? `${file} is missing.`
      : `${file} has a line that svc did not write: ${odd}`,
    config === undefined
      ? `Write it: ${writing(plainConfig)}; or, if the ids of its commits have 64 digits: ${writing(sha256Config)}`
      : `Unless this is intended, reset the file: ${writing(/sha256/i.test(config) ? sha256Config : plainConfig)}`,
  )
}

function borrowFindings(path: string, alternates = '', shallow = ''): Findings {
  const git = `git --git-dir=${shellWord(path)}`
  const findings: Findings[] = []
  if (alternates.trim() !== '') {
    findings.push(
      warning(
        `${path} borrows objects from ${alternates.trim().split('\n')[0]}; without that it is incomplete.`,
        `Stop the service, then: ${git} repack -a -d && rm ${shellWord(join(path, 'objects/info/alternates'))}`,
      ),
    )
  }
  if (shallow.trim() !== '') {
    const fix = `Complete it from a full clone: ${git} fetch --unshallow PATH-OF-THE-CLONE`
    findings.push(warning(`${path} is shallow: its history is incomplete.`, fix))
  }
  return findings
}

function toAbsence(error: unknown): undefined {
  if (['ENOENT', 'ENOTDIR'].includes(codeOf(error) ?? '')) return undefined
  throw error
}

const stuckMs = 10 * 60_000

/** Checks for pushes that were not finalized in time. */
export const pushesCheck: Check = {
  id: 'pushes',
  title: 'unfinished pushes',
  async run(context) {
    const { count, since } = await context.read(readUnfinished)
    if (count === 0 || since === null) return ok('None.')
    if (!context.isServed()) return ok(`${count}; the next start finalizes them.`)
    const isStuck = Date.now() - since > stuckMs
    if (!isStuck) return ok(`${count}, running.`)
    return warning(
      `${count}, the oldest since ${new Date(since).toISOString()}: its events have not been published.`,
      'Find the reason in the log of the service ("sweep"), then restart the service: a start finalizes them.',
    )
  },
}
