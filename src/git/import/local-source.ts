import { printable } from '#base/format.ts'
import { type ObjectFormat, objectFormats } from '#base/object-id.ts'
import { gitCommands } from '../process/commands.ts'
import type { Git } from '../process/git-process.ts'
import { importFailed } from './import-error.ts'
import type { LocalCopy } from './import-refs.ts'
import { copyRepository, readConfig, readHeadRef } from './local-copy.ts'
import { type LocalLfsSource, openLocalLfsSource } from './local-lfs-source.ts'
import { requireHead } from './mirror.ts'
import { OpenedFolder } from './opened-folder.ts'
import { convertReftable } from './reftable.ts'

type Options = {
  /** Whether a repository may be read. It is checked on the opened folder: its path may be replaced meanwhile. */
  isAllowed: (repository: Pick<OpenedFolder, 'realPath' | 'isIn'>) => Promise<boolean>
  /** The Problem of a repository that may not be read. */
  forbidden: () => Error
  /** An unused path for the copy. */
  scratch: string
  maxBytes: number
  signal: AbortSignal
  /** Called when data has been copied. */
  onArrival: () => void
}

/**
 * Copies the repository at a path, or in its `.git`, and opens its objects of Git LFS, which are not copied. Throws an
 * `import_failed` for one that cannot be imported.
 */
export async function copyLocalSource(
  git: Git,
  path: string,
  options: Options,
): Promise<{ from: LocalCopy; lfs: LocalLfsSource | undefined }> {
  const { isAllowed, forbidden, scratch, maxBytes, signal, onArrival } = options
  await using folder = await OpenedFolder.open(path).catch(explainPath)
  await using repository = await repositoryIn(folder)
  if (!(await isAllowed(repository))) throw forbidden()
  const { refFormat, objectFormat } = await requireFormats(git, await readConfig(repository))
  await using converted =
    refFormat === 'reftable'
      ? await convertReftable(git, repository, {
          path: `${scratch}.refs`,
          objectFormat,
          signal,
        })
      : undefined
  const refs = converted?.folder
  const head = await readHeadRef(refs ?? repository)
  requireHead(head)
  await copyRepository(repository, scratch, {
    maxBytes,
    objectFormat,
    signal,
    onProgress: onArrival,
    refs,
  })
  const from = { copy: scratch, objectFormat, head }
  return { from, lfs: await openLocalLfsSource(repository) }
}

/** Throws an `import_failed` that explains why a path cannot be opened. */
export function explainPath(error: unknown): never {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'ENOENT') throw importFailed('There is nothing at this path of the server.')
  if (code === 'ENOTDIR' || code === 'ELOOP') {
    throw importFailed('The source is no folder. A bundle is cloned first, and its clone pushed.')
  }
  if (code === 'EACCES' || code === 'EPERM') {
    throw importFailed('The server may not read this path.')
  }
  if (code === 'ENAMETOOLONG') throw importFailed('The path has a part that is too long.')
  throw error
}

async function repositoryIn(folder: OpenedFolder): Promise<OpenedFolder> {
  const found = await Promise.all(['HEAD', 'objects', 'refs'].map((part) => folder.find(part)))
  if (found.every((part) => part !== undefined)) return folder
  const inner = await folder.find('.git')
  if (inner?.isFile()) {
    throw importFailed(
      'The source is a worktree or a submodule; import the repository that it belongs to.',
    )
  }
  if (inner?.isSymbolicLink()) {
    throw importFailed('".git" in the source is a symbolic link; import what it leads to.')
  }
  const repository = inner?.isDirectory()
    ? await folder.folder('.git').catch(explainPath)
    : undefined
  if (!repository) throw importFailed('There is no Git repository at the source.')
  return repository
}

/** The formats of the objects and the refs. Throws an `import_failed` for a configuration that svc does not import. */
async function requireFormats(
  git: Git,
  config: string,
): Promise<{ objectFormat: ObjectFormat; refFormat: 'files' | 'reftable' }> {
  const listed = await git.run(gitCommands.listConfig(), { input: config }).catch(() => {
    throw importFailed('The configuration of the source cannot be read.')
  })
  const settings = new Map(
    listed.split('\0').map((entry) => entry.split('\n', 2) as [string, string | undefined]),
  )
  const of = (name: string) => settings.get(name)?.toLowerCase()
  const objectFormat = objectFormats.find(
    (format) => format === (of('extensions.objectformat') ?? 'sha1'),
  )
  if (objectFormat === undefined)
    throw importFailed('The source has an object format that this server does not know.')
  const refFormat = of('extensions.refstorage') ?? 'files'
  if (refFormat !== 'files' && refFormat !== 'reftable') {
    throw importFailed(
      `The source keeps its refs as "${printable(refFormat)}"; push it here with git instead.`,
    )
  }
  const isPartial = [...settings.keys()].some((name) =>
    /^extensions\.partialclone$|^remote\..*\.(promisor|partialclonefilter)$/i.test(name),
  )
  if (isPartial) {
    throw importFailed('The source is a partial clone; fetch all of its objects first.')
  }
  return { objectFormat, refFormat }
}
