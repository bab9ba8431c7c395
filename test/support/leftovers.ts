import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { until } from './condition.ts'
import { repositoriesFolder } from './kind-of-store.ts'

// Locks, quarantines, half packs, the guards of new packs, packs that are about to be pruned. A branch may be called `tmp_x`, but not `x.lock`.
const passing =
  /\.lock$|\.git\/(packed-refs\.new|shallow_\w+|svc-expired)$|\/objects\/(tmp_|incoming-|info\/(.*\/)?tmp_)|\/pack\/(\.?tmp[_-]|.*\.keep$)/

/** Temporary files in a data directory, in use or left behind. */
export async function leftoversIn(dataDir: string): Promise<string[]> {
  const [drafts, graves, files] = await Promise.all(
    ['staging', 'trash', repositoriesFolder].map((folder) => allIn(join(dataDir, folder))),
  )
  const present = new Set(files)
  const isHalfPack = (path: string) =>
    /\/pack\/(?!multi-pack-index)[^/]+$/.test(path) &&
    ['pack', 'idx'].some((type) => !present.has(path.replace(/\.\w+$/, `.${type}`)))
  // The index of all packs ends in the checksum by which its bitmap is called.
  const isHalfIndex = (path: string) => {
    const [, folder = '', sum] = /^(.*\/pack\/)multi-pack-index-(\w+)\.\w+$/.exec(path) ?? []
    return sum !== undefined && readSum(`${folder}multi-pack-index`) !== sum
  }
  const left = (files ?? []).filter(
    (path) => passing.test(path) || isHalfPack(path) || isHalfIndex(path),
  )
  return [...(drafts ?? []), ...(graves ?? []), ...left].map((path) => relative(dataDir, path))
}

/** Waits until nothing temporary is left; fails with what is. */
export async function untilTidy(dataDir: string): Promise<void> {
  let left: string[] = []
  await until('nothing temporary is left', async () => {
    left = await leftoversIn(dataDir)
    return left.length === 0
  }).catch(() => assert.deepEqual(left, []))
}

/** The directories of repositories that are in place. */
export async function repositoryFolders(dataDir: string): Promise<string[]> {
  const all = await allIn(join(dataDir, repositoriesFolder))
  return all.filter((path) => /\/repositories\/[^/]+\/[^/]+$/.test(path)).sort()
}

function readSum(path: string): string {
  try {
    return readFileSync(path).subarray(-20).toString('hex')
  } catch {
    return ''
  }
}

/** The files and folders below a folder. */
async function allIn(folder: string): Promise<string[]> {
  // Files of a live repository come and go between two looks.
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => [])
  const nested = entries.map(async (entry) => {
    const path = join(folder, entry.name)
    return entry.isDirectory() ? [path, ...(await allIn(path))] : [path]
  })
  return (await Promise.all(nested)).flat()
}
