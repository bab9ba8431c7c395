import type { Dirent } from 'node:fs'
import { constants } from 'node:fs'
import { type FileHandle, lstat, open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { BackupError } from './manifest.ts'

/** What is in a backup's folder: files by their path from there, with what lstat(2) says. */
export type Tree = {
  files: Map<string, { bytes: number; modifiedAt: number }>
  folders: string[]
  /** What is neither file nor folder: links, pipes, devices. */
  others: string[]
}

// Made by mke2fs(8) at the top of each of its file systems.
const notOurs = 'lost+found'

/** Lists a folder with all that is in it, following no link. */
export async function readTree(root: string): Promise<Tree> {
  const tree: Tree = { files: new Map(), folders: [], others: [] }
  await collect(root, '', tree)
  return tree
}

/** Opens a file for reading, unless it is a link. */
export async function openFile(path: string): Promise<FileHandle> {
  return open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
}

/** Throws a BackupError if a link, pipe or device is in a backup: svc makes none there. */
export function refuseOthers(root: string, { others }: Tree): void {
  const [first] = others
  if (first === undefined) return
  throw new BackupError(
    `${join(root, first)} is neither a file nor a folder, so this is no backup as svc makes it. Nothing was changed.`,
  )
}

async function collect(root: string, folder: string, tree: Tree): Promise<void> {
  for (const entry of await readdir(join(root, folder), { withFileTypes: true })) {
    const path = folder === '' ? entry.name : `${folder}/${entry.name}`
    if (path === notOurs) continue
    await collectEntry(root, path, entry, tree)
  }
}

async function collectEntry(root: string, path: string, entry: Dirent, tree: Tree): Promise<void> {
  if (entry.isDirectory()) {
    tree.folders.push(path)
    return collect(root, path, tree)
  }
  if (!entry.isFile()) {
    tree.others.push(path)
    return
  }
  const { size, mtimeMs } = await lstat(join(root, path))
  tree.files.set(path, { bytes: size, modifiedAt: mtimeMs })
}
