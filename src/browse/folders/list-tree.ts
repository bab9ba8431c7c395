import { Problem } from '#base/problem.ts'
import { createTimeSlices } from '#base/time-slices.ts'
import type { ObjectReader } from '#git/objects/object-reader.ts'
import { entryAt, entryCount, type TreeBuffer, type TreeEntry } from '#git/objects/tree-buffer.ts'
import type { RawPath } from '../api-path.ts'
import { type Trees, treeMode } from '../trees.ts'

/** An entry with its path in the repository. */
export type ListedEntry = TreeEntry & { path: RawPath }

/**
 * A place in a listing: for each folder that is entered, from the first to the innermost one, the index of the entry
 * that comes next.
 */
export type Position = readonly number[]

export type TreePage = {
  entries: ListedEntry[]
  /** Where the next page starts; undefined at the end. */
  next: Position | undefined
  /** Whether entries were left out for the length of their paths. */
  hasOmitted: boolean
}

type Wanted = {
  /** The id of the first folder, and its path. */
  id: string
  path: RawPath
  isRecursive: boolean
  from: Position
  limit: number
}

/** An entered folder. Its tree is read again by id: all trees of a deep path may not fit in memory. */
type Entered = { id: string; path: RawPath; next: number }

/** Longer paths cannot be requested: they are left out, with what is below them. */
export const listedPathMaxBytes = 4096
/** A page ends earlier when its paths are longer than this together. */
const pageMaxBytes = 512 * 1024
/** A page ends earlier when it takes longer. */
const pageMaxMs = 500
const maxMs = 10_000

/**
 * Lists a folder in Git's order, of a recursive listing each folder before its content. Undefined for a position that the
 * folder does not have. Throws as `Trees.open` does, and `git_limit_exceeded` when it takes too long.
 */
export async function listTree(
  trees: Trees,
  objects: ObjectReader,
  { id, path, isRecursive, from, limit }: Wanted,
): Promise<TreePage | undefined> {
  const startedAt = performance.now()
  const slices = createTimeSlices()
  const open = async (folder: Entered) => {
    if (performance.now() - startedAt > maxMs) throw tookTooLong()
    await slices.rest()
    return trees.open(objects, folder.id)
  }
  const entered = await enter(open, { id, path, from })
  if (!entered) return undefined
  const entries: ListedEntry[] = []
  let [bytes, hasOmitted] = [0, false]
  for (let folder = entered.at(-1); folder; folder = entered.at(-1)) {
    const tree = await open(folder)
    if (folder.next >= entryCount(tree)) {
      entered.pop()
      continue
    }
    const isLate = entries.length > 0 && performance.now() - startedAt > pageMaxMs
    const isFull = entries.length === limit || bytes > pageMaxBytes || isLate
    if (isFull) return { entries, hasOmitted, next: entered.map(({ next }) => next) }
    const entry = entryAt(tree, folder.next)
    folder.next += 1
    const entryPath = join(folder.path, entry.name)
    if (entryPath.length > listedPathMaxBytes) {
      hasOmitted = true
      continue
    }
    entries.push({ ...entry, path: entryPath })
    bytes += entryPath.length
    if (isRecursive && entry.mode === treeMode)
      entered.push({ id: entry.id, path: entryPath, next: 0 })
  }
  return { entries, hasOmitted, next: undefined }
}

/** Finds the folders of a position. */
async function enter(
  open: (folder: Entered) => Promise<TreeBuffer>,
  { id, path, from }: Pick<Wanted, 'id' | 'path' | 'from'>,
): Promise<Entered[] | undefined> {
  const [first = 0, ...rest] = from
  let folder: Entered = { id, path, next: first }
  const entered = [folder]
  for (const next of rest) {
    const tree = await open(folder)
    // The entry before the next one is the folder that is entered.
    const index = folder.next - 1
    if (index < 0 || index >= entryCount(tree)) return undefined
    const entry = entryAt(tree, index)
    const entryPath = join(folder.path, entry.name)
    if (entry.mode !== treeMode || entryPath.length > listedPathMaxBytes) return undefined
    folder = { id: entry.id, path: entryPath, next }
    entered.push(folder)
  }
  return entered
}

function tookTooLong(): Problem {
  const detail = `The listing takes longer than ${maxMs / 1000} s. List fewer entries, or smaller folders.`
  return new Problem('git_limit_exceeded', detail)
}

function join(folder: RawPath, name: string): RawPath {
  return folder === '' ? name : `${folder}/${name}`
}
