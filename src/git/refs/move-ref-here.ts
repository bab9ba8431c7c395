import { open, readFile, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { absentAs } from '../../base/absence.ts'
import { readRefs } from './refs.ts'

/**
 * Moves a ref that exists as git does, without a git process: under its lock file, which is synced and becomes the ref.
 * Returns false, with nothing changed, where git has to decide: the lock is taken, or the ref has another value, is
 * symbolic, has a reflog, or is packed and has a folder in place of its file.
 */
export async function moveRefHere(
  directory: string,
  { ref, from, to }: { ref: string; from: string; to: string },
): Promise<boolean> {
  const path = join(directory, ref)
  const lock = `${path}.lock`
  const file = await open(lock, 'wx').catch(() => undefined)
  if (!file) return false
  let isMoved = false
  try {
    if ((await readValue(directory, ref)) !== from || (await hasLog(directory, ref))) return false
    await file.writeFile(`${to}\n`)
    await file.sync()
    isMoved = await rename(lock, path).then(() => true, absentAs(false))
    return isMoved
  } finally {
    await file.close()
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
