import { createHash } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { deflateSync } from 'node:zlib'
import { createProject, git } from './git.ts'
import { objectFormat } from './object-format.ts'

export type TreeEntry = { mode: string; name: string; id: string }

const signature = 'Ada <ada@example.com> 1700000000 +0000'

/** A bare repository with a commit on `main`, loose or in a pack, at a path. */
export async function createSource(path: string, { isPacked = false } = {}): Promise<string> {
  await using project = await createProject()
  await project.commit('second.txt', 'second\n')
  await git(project.path, ['tag', '-a', 'v1', '-m', 'One'])
  await git('/', ['clone', '--quiet', '--bare', '--template=', project.path, path])
  await git(path, ['remote', 'remove', 'origin'])
  if (isPacked) await git(path, ['repack', '-a', '-d', '-q'])
  return path
}

/** Writes an object as a loose one, be it well formed or not; its id. */
export async function writeObject(
  repository: string,
  type: 'blob' | 'tree' | 'commit' | 'tag',
  content: Buffer | string,
): Promise<string> {
  const bytes = Buffer.from(content)
  const object = Buffer.concat([Buffer.from(`${type} ${bytes.length}\0`), bytes])
  const id = createHash(objectFormat).update(object).digest('hex')
  await mkdir(join(repository, 'objects', id.slice(0, 2)), { recursive: true })
  await writeFile(objectPath(repository, id), deflateSync(object)).catch((error) => {
    // It is there already.
    if (error.code !== 'EACCES') throw error
  })
  return id
}

export function writeTree(repository: string, entries: TreeEntry[]): Promise<string> {
  const lines = entries.map(({ mode, name, id }) =>
    Buffer.concat([Buffer.from(`${mode} ${name}\0`), Buffer.from(id, 'hex')]),
  )
  return writeObject(repository, 'tree', Buffer.concat(lines))
}

/** Makes a branch of one commit with a tree. */
export async function writeBranch(
  repository: string,
  name: string,
  tree: string,
  { author = signature, message = 'Hostile\n' } = {},
): Promise<string> {
  const text = `tree ${tree}\nauthor ${author}\ncommitter ${signature}\n\n${message}`
  const id = await writeObject(repository, 'commit', text)
  await writeFile(join(repository, 'refs/heads', name), `${id}\n`)
  return id
}

/** Where a loose object is. */
function objectPath(repository: string, id: string): string {
  return join(repository, 'objects', id.slice(0, 2), id.slice(2))
}
