import { link, mkdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { absentAs, isAbsence } from '#base/absence.ts'
import { hasPackedBelow } from './packed-refs.ts'
import { zeroId } from './ref-name.ts'
import { readRefs } from './refs.ts'
import { toRawName } from './stored-ref.ts'

/**
 * Creates or moves a ref as git does, without a git process: under its lock file, which becomes the ref. `draft` is a file
 * on the same file system with the new content, already synced, and stays there. Returns false, with no ref changed, where
 * git has to decide: the lock is taken, or the ref has another value, is symbolic, has a reflog, or has a folder in place
 * of its file; a new ref is within another one, or another one within it; also on a file system without hard links.
 */
export async function moveRefInProcess(
  directory: string,
  { ref, from, draft }: { ref: string; from: string; draft: string },
): Promise<boolean> {
  const path = join(directory, ref)
  const lock = `${path}.lock`
  if (!(await takeLock(draft, lock))) return false
  let isMoved = false
  try {
    if ((await readValue(directory, ref)) !== from || (await hasLog(directory, ref))) return false
    if (from === zeroId && (await isInTheWay(directory, ref))) return false
    isMoved = await rename(lock, path).then(() => true, absentAs(false))
    return isMoved
  } finally {
    if (!isMoved) await rm(lock, { force: true })
  }
}

async function takeLock(draft: string, lock: string): Promise<boolean> {
  const take = () =>
    link(draft, lock).then(
      () => true,
      (error) => (isAbsence(error) ? undefined : false),
    )
  const isTaken = await take()
  if (isTaken !== undefined) return isTaken
  // Where the first part of a name is a ref, it has no folder.
  await mkdir(dirname(lock), { recursive: true }).catch(() => {})
  return (await take()) === true
}

/**
 * Whether there is a packed ref beside which one of this name cannot exist: `a` or `a/b/c` for `a/b`. A loose one needs no
 * look: `a` is a file, so that the lock `a/b.lock` has no folder, and for `a/b/c` there is a folder where the ref would be.
 */
async function isInTheWay(directory: string, ref: string): Promise<boolean> {
  const parts = ref.split('/')
  // None has fewer than three parts.
  const outer = parts.slice(3).map((_, index) => parts.slice(0, index + 3).join('/'))
  const values = await readRefs(directory, outer)
  if (outer.some((name) => values.get(name) !== zeroId)) return true
  // Git sorts an unsorted file.
  return (await hasPackedBelow(directory, `${toRawName(ref)}/`)) ?? true
}

/** The content of the ref's file, or its packed value; no other git can change either under the lock. */
async function readValue(directory: string, ref: string): Promise<string | undefined> {
  const loose = await readFile(join(directory, ref), 'latin1').catch(absentAs(undefined))
  return loose === undefined ? (await readRefs(directory, [ref])).get(ref) : loose.trimEnd()
}

async function hasLog(directory: string, ref: string): Promise<boolean> {
  return (await stat(join(directory, 'logs', ref)).catch(absentAs(undefined))) !== undefined
}
