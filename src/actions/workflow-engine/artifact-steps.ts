import { posix } from 'node:path'
import { ArchiveError, packFiles, unpackFiles } from './archives.ts'
import { findFiles } from './find-files.ts'
import { commonFolder, readPathPatterns, toAbsolute } from './path-patterns.ts'
import { ended, type StepEnd } from './step-end.ts'
import {
  flagOf,
  inputOf,
  logLine,
  type StorageContext,
  toMegabytes,
  warn,
  warnOfElsewhere,
  warnOfLeadingOut,
} from './storage-step.ts'

const nameMaxLength = 256
const maxRetentionDays = 3650

/** `actions/upload-artifact` */
export async function runUploadArtifact(context: StorageContext): Promise<StepEnd> {
  const { running, storage, signal } = context
  const name = inputOf(context, 'name') || 'artifact'
  assertName(name)
  const retentionDays = retentionDaysOf(context)
  const overwrite = flagOf(context, 'overwrite')
  const patterns = readPathPatterns(inputOf(context, 'path'), running.workspace.inside)
  await warnOfElsewhere(context, patterns)
  const { found, leadingOut } = await findFiles({ ...context, patterns, followLinks: true })
  const withHidden = flagOf(context, 'include-hidden-files')
  const isHidden = createHiddenTest(patterns.starts)
  const isVisible = (path: string) => withHidden || !isHidden(path)
  const files = found
    .filter(({ path, isFile }) => isFile && isVisible(path))
    .map(({ path }) => path)
  await warnOfLeadingOut(context, leadingOut.filter(isVisible))
  if (files.length === 0) return endWithoutFiles(context, withHidden)
  const [start = ''] = patterns.starts
  const isOneFile = patterns.starts.length === 1 && files.length === 1 && files[0] === start
  const folder = isOneFile ? posix.dirname(start) : commonFolder(patterns.starts)
  const { result, bytes } = await packFiles(
    {
      ...context,
      folder,
      options: ['--dereference', '--hard-dereference', '--no-recursion'],
      files: files.map((path) => posix.relative(folder, path)),
    },
    (content) => storage.saveArtifact({ name, retentionDays, overwrite, content, signal }),
  )
  const count = `${files.length} ${files.length === 1 ? 'file' : 'files'}`
  await logLine(
    context,
    `Saved ${count}, ${toMegabytes(bytes)}, as the artifact ${name}: ${toMegabytes(result.size)}, SHA-256 ${result.sha256}.`,
  )
  const { id, url, sha256 } = result
  const outputs = { 'artifact-id': id, 'artifact-url': url, 'artifact-digest': sha256 }
  return ended('success', { outputs })
}

async function endWithoutFiles(context: StorageContext, withHidden: boolean): Promise<StepEnd> {
  const note = withHidden ? '' : ' Hidden files need "include-hidden-files: true".'
  const text = `No file matches the paths, so no artifact is saved.${note}`
  switch (inputOf(context, 'if-no-files-found') || 'warn') {
    case 'error':
      throw new ArchiveError(text)
    case 'warn':
      await warn(context, text)
      return ended('success')
    case 'ignore':
      await logLine(context, text)
      return ended('success')
    default:
      throw new ArchiveError('The input if-no-files-found is not one of warn, error and ignore.')
  }
}

/** `actions/download-artifact` */
export async function runDownloadArtifact(context: StorageContext): Promise<StepEnd> {
  const { storage, signal, running } = context
  const folder = toAbsolute(inputOf(context, 'path'), running.workspace.inside)
  const name = inputOf(context, 'name')
  const merges = flagOf(context, 'merge-multiple')
  const all = await storage.listArtifacts(signal)
  const chosen = name === '' ? await matching(context, all) : all.filter((one) => one.name === name)
  if (name !== '' && chosen.length === 0) {
    const names = all.map((one) => one.name).join(', ')
    throw new ArchiveError(
      `This run has no artifact ${name}; ${names === '' ? 'it has none yet' : `it has ${names}`}.`,
    )
  }
  if (chosen.length === 0) await logLine(context, 'No artifact of this run matches.')
  for (const artifact of chosen) {
    assertName(artifact.name)
    const target = name !== '' || merges ? folder : posix.join(folder, artifact.name)
    const content = storage.artifactContent(artifact.name, signal)
    const bytes = await unpackFiles({ ...context, folder: target, content })
    await logLine(
      context,
      `Unpacked the artifact ${artifact.name}, ${toMegabytes(bytes)}, in ${target}.`,
    )
  }
  return ended('success', { outputs: { 'download-path': folder } })
}

async function matching<T extends { name: string }>(
  context: StorageContext,
  all: readonly T[],
): Promise<readonly T[]> {
  const pattern = inputOf(context, 'pattern')
  if (pattern === '') return all
  const names = all.map(({ name }) => name)
  const matches = await context.running.files.match(names, [pattern])
  return matches.flatMap((index) => all[index] ?? [])
}

/** Whether a path, from the one that was given, has a name that starts with a dot. */
function createHiddenTest(starts: readonly string[]): (path: string) => boolean {
  const given = new Set(starts)
  return (path) => {
    for (let start = path; start !== '/'; start = posix.dirname(start)) {
      if (posix.basename(start).startsWith('.')) return true
      if (given.has(start)) return false
    }
    return false
  }
}

function assertName(name: string): void {
  if (name.length <= nameMaxLength && !/[":<>|*?\\/\p{Cc}]/u.test(name) && !/^\.{1,2}$/.test(name))
    return
  throw new ArchiveError(
    `The name ${name} is not valid for an artifact: it has at most ${nameMaxLength} characters and none of " : < > | * ? \\ /.`,
  )
}

function retentionDaysOf(context: StorageContext): number | undefined {
  const text = inputOf(context, 'retention-days')
  if (text === '' || text === '0') return undefined
  if (/^\d{1,4}$/.test(text) && Number(text) <= maxRetentionDays) return Number(text)
  throw new ArchiveError(`The input retention-days is not a number from 0 to ${maxRetentionDays}.`)
}
