import { lstat, mkdir, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreExistence } from '../absence.ts'
import { writeAll } from '../disk.ts'
import { ArchiveFormatError } from './archive-format-error.ts'
import { type ArchiveEntry, readTar } from './read-tar.ts'

// The same limits as for artifacts in runs.
const maxBytes = 10 * 1024 ** 3
const maxEntries = 500_000

/**
 * Unpacks a tar archive, which may be hostile, into a folder, which is created if necessary. It writes only new files, and
 * follows no link below the folder. Throws ArchiveFormatErrors for what is not to be unpacked; the files before it stay.
 */
export async function unpackTar(
  source: AsyncIterable<Buffer>,
  folder: string,
): Promise<{ files: number; bytes: number }> {
  await mkdir(folder, { recursive: true })
  const folders = new Set<string>()
  let [entries, files, bytes] = [0, 0, 0]
  for await (const entry of readTar(source)) {
    entries += 1
    bytes += entry.size
    if (entries > maxEntries) throw new ArchiveFormatError(`It has more than ${maxEntries} files.`)
    if (bytes > maxBytes)
      throw new ArchiveFormatError(`Its files have more than ${maxBytes / 1024 ** 3} GiB.`)
    const { kind, path } = entry
    if (path.some(isOfGit))
      throw new ArchiveFormatError(`${path.join('/')} would be part of a Git repository.`)
    await makeFolders(folder, kind === 'file' ? path.slice(0, -1) : path, folders)
    if (kind !== 'file') continue
    files += 1
    await writeFile(join(folder, ...path), entry)
  }
  return { files, bytes }
}

/**
 * Whether a folder of this name could be the `.git` of a repository, where Git would run commands of an archive. Some file
 * systems ignore case, and characters without a width.
 */
export function isOfGit(name: string): boolean {
  return /^(\.git|git~1)[. ]*$/i.test(name.replace(/\p{Cf}/gu, ''))
}

/** Creates the folders on a path one by one, so that no link is followed. `known` has those of earlier entries. */
async function makeFolders(
  base: string,
  path: readonly string[],
  known: Set<string>,
): Promise<void> {
  let folder = base
  for (const name of path) {
    folder = join(folder, name)
    if (known.has(folder)) continue
    await mkdir(folder).catch(ignoreExistence)
    if (!(await lstat(folder)).isDirectory())
      throw new ArchiveFormatError(`${folder} is no folder.`)
    known.add(folder)
  }
}

async function writeFile(path: string, { content, isExecutable }: ArchiveEntry): Promise<void> {
  const file = await open(path, 'wx', isExecutable ? 0o777 : 0o666).catch((error) => {
    const isThere = error instanceof Error && 'code' in error && error.code === 'EEXIST'
    if (isThere) throw new ArchiveFormatError(`${path} exists.`, { cause: error })
    throw error
  })
  try {
    for await (const chunk of content) await writeAll(file, chunk)
  } catch (error) {
    await rm(path, { force: true })
    throw error
  } finally {
    await file.close()
  }
}
