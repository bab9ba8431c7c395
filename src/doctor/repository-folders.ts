import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf } from '../base/error-code.ts'
import type { DoctorContext } from './context.ts'
import { SkipError } from './finding.ts'

const idForm = /^[0-9a-z]{26}$/

type Folders = {
  /** Ids of the existing directories. */
  ids: Set<string>
  /** Paths of everything else. */
  strays: string[]
}

/** Returns the path of a repository's directory. */
export function folderOf(dataDir: string, id: string): string {
  return join(dataDir, 'repositories', id.slice(-2), `${id}.git`)
}

/** Lists the folder of repositories. Throws a SkipError when it cannot be read. */
export async function listFolders(context: DoctorContext): Promise<Folders> {
  const root = join(await context.dataDir(), 'repositories')
  const ids = new Set<string>()
  const strays: string[] = []
  const shelves = await readdir(root, { withFileTypes: true }).catch((error) => {
    // Then every repository is reported as missing.
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

/** Returns when a path was created or moved there, in milliseconds since the epoch; undefined if it is missing. */
export async function placedAt(path: string): Promise<number | undefined> {
  return stat(path).then(
    ({ ctimeMs }) => ctimeMs,
    () => undefined,
  )
}
