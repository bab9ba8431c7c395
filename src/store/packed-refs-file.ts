import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { branchPrefix } from '../git/refs/refs.ts'
import type { StoredRef } from './stored-repository-store.ts'

const header = '# pack-refs with: peeled fully-peeled sorted \n'

/**
 * Replaces all refs of a repository whose refs are in no other file: the format of packed-refs is described in
 * refs/packed-backend.c of Git. Nothing is synced to the disk, as a cache is not kept after a power failure.
 */
export async function writePackedRefs(directory: string, refs: StoredRef[]): Promise<void> {
  const lines = refs.map(([name, id, peeled]) =>
    peeled === null ? `${id} ${name}\n` : `${id} ${name}\n^${peeled}\n`,
  )
  await replaceFile(directory, 'packed-refs', header + lines.join(''))
}

export async function writeHead(directory: string, branch: string): Promise<void> {
  await replaceFile(directory, 'HEAD', `ref: ${branchPrefix}${branch}\n`)
}

// A draft that a killed process left is overwritten by the next one.
async function replaceFile(directory: string, name: string, content: string): Promise<void> {
  const draft = join(directory, `svc-${name}`)
  await writeFile(draft, content, { mode: 0o600 })
  await rename(draft, join(directory, name))
}
