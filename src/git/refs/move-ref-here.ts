import { link, readFile, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { absentAs } from '../../base/absence.ts'
import { readRefs } from './refs.ts'

/**
 * Moves a ref that exists as git does, without a git process: under its lock file, which becomes the ref. `draft` is a file
 * on the same file system with the new content, already synced, and stays there. Returns false, with nothing changed, where
 * git has to decide: the lock is taken, or the ref has another value, is symbolic, has a reflog, or is packed and has a
 * folder in place of its file; also on a file system without hard links.
 */
export async function moveRefHere(
  directory: string,
  { ref, from, draft }: { ref: string; from: string; draft: string },
): Promise<boolean> {
  const path = join(directory, ref)
  const lock = `${path}.lock`
  const isLocked = await link(draft, lock).then(
    () => true,
    () => false,
  )
  if (!isLocked) return false
  let isMoved = false
  try {
    if ((await readValue(directory, ref)) !== from || (await hasLog(directory, ref))) return false
    isMoved = await rename(lock, path).then(() => true, absentAs(false))
    return isMoved
  } finally {
    if (!isMoved) await rm(lock, { force: true })
  }
}

/** The content of the ref's file, or its packed value; no other git can change either under the lock. */
async function readValue(directory: string, ref: string): Promise<string | undefined> {
  const loose = await readFile(join(directory, ref), 'latin1').catch(absentAs(undefined))
  return loose === undefined ? (await readRefs(directory, [ref])).get(ref) : loose.trimEnd()
}

async function hasLog(directory: string, ref: string): Promise<boolean> {
  return (await stat(join(directory, 'logs', ref)).catch(absentAs(undefined))) !== undefined
}
