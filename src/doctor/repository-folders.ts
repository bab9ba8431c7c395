import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf } from '../base/error-code.ts'
import type { DoctorContext } from './context.ts'
import { SkipError } from './finding.ts'

const idForm = /^[0-9a-z]{26}$/

type Folders = {
  /** The ids of the repositories that are there. */
  ids: Set<string>
  /** Paths that are no repository in its place. */
  strays: string[]
}

/** Where the directory of a repository is. */
export function folderOf(dataDir: string, id: string): string {
  return join(dataDir, 'repositories', id.slice(-2), `${id}.git`)
}

/** What is in the folder of repositories; throws a Skip when there is none. */
export async function listFolders(context: DoctorContext): Promise<Folders> {
  const root = join(await context.dataDir(), 'repositories')
  const ids = new Set<string>()
  const strays: string[] = []
  const shelves = await readdir(root, { withFileTypes: true }).catch((error) => {
    // Every repository that there should be is missing then.
    if (codeOf(error) === 'ENOENT') return []
    throw new SkipError('The folder of repositories cannot be read.')
  })
  for (const shelf of shelves) {
    const path = join(root, shelf.name)
    if (!shelf.isDirectory()) {
      strays.push(path)
      continue
    }
    for (const name of await readdir(path)) {
      const id = name.replace(/\.git$/, '')
      const isInPlace =
        idForm.test(id) && folderOf(context.setting('dataDir'), id) === join(path, name)
      if (isInPlace) ids.add(id)
      else strays.push(join(path, name))
    }
  }
  return { ids, strays }
}

/** Since when a path has been where it is, in milliseconds since the epoch; undefined when it is gone. */
export async function placedAt(path: string): Promise<number | undefined> {
  return stat(path).then(
    ({ ctimeMs }) => ctimeMs,
    () => undefined,
  )
}
