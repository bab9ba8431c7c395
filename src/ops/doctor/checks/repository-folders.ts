import type { Dirent } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { codeOf } from '#base/error-code.ts'
import type { DoctorContext } from '../context.ts'
import { SkipError } from '../finding.ts'

const idForm = /^[0-9a-z]{26}$/

type Folders = {
  /** The existing directories by the ids of their repositories. */
  paths: Map<string, string>
  /** Paths of everything else. */
  strays: string[]
}

/** Returns the path of a repository's directory. */
export function folderOf(dataDir: string, id: string): string {
  return join(dataDir, 'repositories', id.slice(-2), `${id}.git`)
}

/** Returns the path of a deleted repository's directory, which can be restored. */
export function deletedFolderOf(dataDir: string, id: string): string {
  return join(dataDir, 'deleted', `${id}.git`)
}

/** Lists the folders of repositories. Throws a SkipError when they cannot be read. */
export async function listFolders(context: DoctorContext): Promise<Folders> {
  const dataDir = await context.dataDir()
  const root = join(dataDir, 'repositories')
  const candidates: string[] = []
  const strays: string[] = []
  for (const group of await listOrSkip(root)) {
    const path = join(root, group.name)
    if (group.isDirectory())
      candidates.push(...(await readdir(path)).map((name) => join(path, name)))
    else strays.push(path)
  }
  // Last, so that a repository that is deleted meanwhile is listed twice rather than missed.
  const deleted = join(dataDir, 'deleted')
  candidates.push(...(await listOrSkip(deleted)).map(({ name }) => join(deleted, name)))
  const paths = new Map<string, string>()
  for (const path of candidates) {
    const id = basename(path).replace(/\.git$/, '')
    const isInPlace =
      idForm.test(id) && [folderOf(dataDir, id), deletedFolderOf(dataDir, id)].includes(path)
    if (isInPlace) paths.set(id, path)
    else strays.push(path)
  }
  return { paths, strays }
}

function listOrSkip(folder: string): Promise<Dirent[]> {
  return readdir(folder, { withFileTypes: true }).catch((error) => {
    // Then its repositories are reported as missing.
    if (codeOf(error) === 'ENOENT') return []
    throw new SkipError('The folder of repositories cannot be read.')
  })
}

/** Returns when a path was created or moved there, in milliseconds since the epoch; undefined if it is missing. */
export async function placedAt(path: string): Promise<number | undefined> {
  return stat(path).then(
    ({ ctimeMs }) => ctimeMs,
    () => undefined,
  )
}
