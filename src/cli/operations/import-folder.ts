import { lstat, readdir } from 'node:fs/promises'
import { join, relative, resolve } from 'node:path'
import { codeOf } from '#base/error-code.ts'
import { CommandError } from '../terminal/command-errors.ts'
import type { Candidate } from './import-candidate.ts'

const maxDepth = 6
const maxFolders = 100_000

/**
 * The Git repositories in a folder of this machine, bare ones and those with a working tree, by their path. Symbolic links are
 * not followed, and nothing is looked for inside a repository. Throws a CommandError for a folder that cannot be read.
 */
export async function findInFolder(folder: string): Promise<Candidate[]> {
  const root = resolve(folder)
  const found: Candidate[] = []
  let seen = 0
  const visit = async (path: string, depth: number) => {
    if (++seen > maxFolders) throw tooMany(root)
    if (await isRepository(path)) {
      found.push({ source: path, address: path, path: relative(root, path) || root })
      return
    }
    if (depth === maxDepth) return
    for (const entry of await readFolder(path, path === root))
      if (entry.isDirectory()) await visit(join(path, entry.name), depth + 1)
  }
  await visit(root, 0)
  return found.sort((one, two) => (one.source < two.source ? -1 : 1))
}

/** Whether a folder is a repository: bare, or with a working tree. */
async function isRepository(path: string): Promise<boolean> {
  if (await exists(join(path, '.git', 'HEAD'))) return true
  const [head, objects, refs] = await Promise.all(
    ['HEAD', 'objects', 'refs'].map((name) => exists(join(path, name))),
  )
  return Boolean(head && objects && refs)
}

async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  )
}

async function readFolder(path: string, isRoot: boolean) {
  try {
    return await readdir(path, { withFileTypes: true })
  } catch (error) {
    if (!isRoot) return []
    const reasons: Record<string, string> = {
      ENOENT: 'there is nothing at this path',
      ENOTDIR: 'it is no folder',
      EACCES: 'permission denied',
    }
    const code = codeOf(error) ?? ''
    throw new CommandError('failure', `${path} cannot be read: ${reasons[code] ?? code}.`, {
      cause: error,
    })
  }
}

function tooMany(root: string): CommandError {
  const detail = `${root} has more than ${maxFolders} folders; give the folder of the repositories.`
  return new CommandError('failure', detail)
}
