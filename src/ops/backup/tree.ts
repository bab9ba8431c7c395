import { constants, type Dirent } from 'node:fs'
import { type FileHandle, lstat, open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { BackupError } from './manifest.ts'

/** The content of a backup's folder: files by relative path, with their metadata from lstat(2). */
export type Tree = {
  files: Map<string, { bytes: number; modifiedAt: number }>
  folders: string[]
  /** Links, pipes and devices. */
  others: string[]
}

// Created by mke2fs(8) at the top of each file system.
const ignoredFolder = 'lost+found'

/** Lists a folder recursively, without following links. */
export async function listFolder(root: string): Promise<Tree> {
  const tree: Tree = { files: new Map(), folders: [], others: [] }
  await collect(root, '', tree)
  return tree
}

/** Opens a file for reading, unless it is a link. */
export async function openFile(path: string): Promise<FileHandle> {
  return open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
}

/** Throws a BackupError if a backup contains a link, pipe or device: svc creates none. */
export function refuseOthers(root: string, { others }: Tree): void {
  const [first] = others
  if (first === undefined) return
  throw new BackupError(
    `${join(root, first)} is neither a file nor a folder, so this is not a backup of svc. Nothing was changed.`,
  )
}

async function collect(root: string, folder: string, tree: Tree): Promise<void> {
  for (const entry of await readdir(join(root, folder), { withFileTypes: true })) {
    const path = folder === '' ? entry.name : `${folder}/${entry.name}`
    if (path === ignoredFolder) continue
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
