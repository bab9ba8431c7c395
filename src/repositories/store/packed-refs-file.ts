import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { replaceFile } from '#base/disk.ts'
import type { RefRow } from '#database/schema.ts'
import { branchPrefix } from '#git/refs/refs.ts'
import type { StoredRef } from './stored-repository-store.ts'

const header = '# pack-refs with: peeled fully-peeled sorted \n'

/**
 * Replaces all refs of a repository whose refs are in no other file: the format of packed-refs is described in
 * refs/packed-backend.c of Git. Nothing is synced to the disk, as a cache is not kept after a power failure.
 */
export async function writePackedRefs(directory: string, refs: StoredRef[]): Promise<void> {
  const lines = refs.map(([name, objectId, peeledId]) => toLines(name, { objectId, peeledId }))
  await replaceFile(directory, 'packed-refs', header + lines.join(''))
}

/** New values of refs by their names; undefined for those that are deleted. */
export type RefChanges = ReadonlyMap<string, Pick<RefRow, 'objectId' | 'peeledId'> | undefined>

/** Changes some of the refs in a file of writePackedRefs, which costs less than reading all from the database. */
export async function changePackedRefs(directory: string, changes: RefChanges): Promise<void> {
  // In latin1 each character is a byte, and the order of names is that of bytes.
  const before = await readFile(join(directory, 'packed-refs'), 'latin1')
  const pending = [...changes]
    .map(([name, value]) => ({ name: Buffer.from(name).toString('latin1'), value }))
    .sort((a, b) => (a.name < b.name ? 1 : -1))
  const after: string[] = []
  const take = (isNext: (name: string) => boolean) => {
    for (let next = pending.at(-1); next && isNext(next.name); next = pending.at(-1)) {
      pending.pop()
      if (next.value) after.push(toLines(next.name, next.value))
    }
  }
  // Each ref has one line, and a second one that begins with `^` when it is a tag. The first line is the header.
  const lines = before.split('\n').slice(1, -1)
  for (const [index, line] of lines.entries()) {
    if (line.startsWith('^')) continue
    const name = line.slice(line.indexOf(' ') + 1)
    take((other) => other < name)
    if (pending.at(-1)?.name === name) {
      take((other) => other === name)
      continue
    }
    after.push(`${line}\n`)
    const next = lines[index + 1]
    if (next?.startsWith('^')) after.push(`${next}\n`)
  }
  take(() => true)
  await replaceFile(directory, 'packed-refs', Buffer.from(header + after.join(''), 'latin1'))
}

function toLines(name: string, { objectId, peeledId }: Pick<RefRow, 'objectId' | 'peeledId'>) {
  return peeledId === null ? `${objectId} ${name}\n` : `${objectId} ${name}\n^${peeledId}\n`
}

export async function writeHead(directory: string, branch: string): Promise<void> {
  await replaceFile(directory, 'HEAD', `ref: ${branchPrefix}${branch}\n`)
}
