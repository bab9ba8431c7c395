import { constants } from 'node:fs'
import { copyFile, type FileHandle, mkdir, open, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { importFailed, importTooLarge } from './import-fault.ts'
import { OddFile, type OpenedFolder, pathOf } from './opened-folder.ts'
import { isRefName } from './ref-name.ts'

type Options = {
  maxBytes: number
  signal: AbortSignal
  /** Called with how many bytes have been copied. */
  onProgress: (bytes: number) => void
}

type Copying = {
  /** Counts bytes before they are written. Throws when they are too many, or nobody wants them any more. */
  spend: (bytes: number) => void
}

const headMaxBytes = 4096
const configMaxBytes = 1024 * 1024
const chunkBytes = 1024 * 1024
// A copy waits for the disk more than it works.
const filesAtOnce = 32
const foldersAtOnce = 8
const smallBytes = 256 * 1024

/** The name of the copy of a source's configuration, which git does not read by itself. */
export const sourceConfig = 'source-config'

/**
 * Copies the refs and objects of a repository: gitrepository-layout(5). Nothing else of it is used: not its
 * hooks and settings, and no file that is reached through a symbolic link. Throws an `import_failed` for a
 * repository that is not whole in itself.
 */
export async function copyRepository(
  source: OpenedFolder,
  target: string,
  { maxBytes, signal, onProgress }: Options,
): Promise<void> {
  let total = 0
  const copying: Copying = {
    spend(bytes) {
      signal.throwIfAborted()
      total += bytes
      if (total > maxBytes) throw importTooLarge(maxBytes)
      onProgress(total)
    },
  }
  try {
    await refuseParts(source)
    await mkdir(target, { mode: 0o700 })
    await writeFile(
      join(target, 'config'),
      '[core]\n\trepositoryformatversion = 0\n\tbare = true\n',
    )
    await copyHead(source, target)
    await copyNamed(source, 'config', join(target, sourceConfig), copying)
    // Loose refs before packed ones: a ref that is being packed is then seen in one place at least.
    await copyFolder(source, 'refs', target, copying, refRules)
    await copyNamed(source, 'packed-refs', join(target, 'packed-refs'), copying)
    await copyFolder(source, 'objects', target, copying, objectRules)
  } catch (error) {
    if (!(error instanceof OddFile)) throw error
    throw importFailed(
      `"${error.message}" in the source is a symbolic link or no plain file; such a repository is not imported.`,
    )
  }
}

/** Refuses a repository that is a part of another one, or has only a part of its history. */
async function refuseParts(source: OpenedFolder): Promise<void> {
  if (await source.text('commondir', 1)) {
    throw importFailed('The source is a worktree; import the repository that it belongs to.')
  }
  if (await source.text('shallow', 1)) {
    throw importFailed('The source is a shallow clone; fetch all of its history first.')
  }
  await using objects = await source.folder('objects')
  await using info = await objects?.folder('info')
  for (const name of ['alternates', 'http-alternates']) {
    if (!(await info?.text(name, 1))) continue
    throw importFailed(
      'The source borrows objects from another repository; repack it on its own first (git repack -a -d).',
    )
  }
}

async function copyHead(source: OpenedFolder, target: string): Promise<void> {
  const head = await source.text('HEAD', headMaxBytes)
  await writeFile(join(target, 'HEAD'), head)
}

/** Which files and folders of a folder are copied. */
type Rules = { isFile: (path: string) => boolean; isFolder: (path: string) => boolean }

const refRules: Rules = { isFile: isRefName, isFolder: (path) => !path.endsWith('.lock') }

const objectRules: Rules = {
  isFile: (path) =>
    /^objects\/([0-9a-f]{2}\/[0-9a-f]{38}|pack\/pack-[0-9a-f]{40}\.(pack|idx))$/.test(path),
  isFolder: (path) => /^objects\/([0-9a-f]{2}|pack)$/.test(path),
}

async function copyFolder(
  parent: OpenedFolder,
  path: string,
  target: string,
  copying: Copying,
  rules: Rules,
): Promise<void> {
  await using folder = await parent.folder(path.slice(path.lastIndexOf('/') + 1))
  await mkdir(join(target, path), { mode: 0o700 })
  if (!folder) return
  const files: string[] = []
  const folders: string[] = []
  for (const entry of await folder.entries()) {
    const inside = `${path}/${entry.name}`
    if (entry.isSymbolicLink()) throw new OddFile(inside)
    if (entry.name.endsWith('.promisor')) {
      throw importFailed('The source is a partial clone; fetch all of its objects first.')
    }
    if (entry.isDirectory() && rules.isFolder(inside)) folders.push(inside)
    else if (rules.isFile(inside)) files.push(entry.name)
  }
  // A pack counts when its index is there, so the pack is copied first.
  files.sort((a, b) => Number(a.endsWith('.idx')) - Number(b.endsWith('.idx')))
  await inParts(files, filesAtOnce, (name) =>
    copyNamed(folder, name, join(target, path, name), copying),
  )
  await inParts(folders, foldersAtOnce, (inside) =>
    copyFolder(folder, inside, target, copying, rules),
  )
}

/** Copies a file, if it is there: files of a repository that is in use come and go. */
async function copyNamed(folder: OpenedFolder, name: string, target: string, { spend }: Copying) {
  await using file = await folder.file(name)
  if (!file) return
  const { size } = await file.stat()
  if (name === 'config' && size > configMaxBytes) {
    throw importFailed('The configuration of the source is too large.')
  }
  if (size > smallBytes) return await copyLarge(file, target, spend)
  spend(size)
  await copyFile(pathOf(file), target, constants.COPYFILE_EXCL)
}

// In pieces, so that the copy ends when it is to, and a file that grows meanwhile is not copied for ever.
async function copyLarge(
  file: FileHandle,
  target: string,
  spend: (bytes: number) => void,
): Promise<void> {
  await using copy = await open(target, 'wx', 0o600)
  const buffer = Buffer.allocUnsafe(chunkBytes)
  for (;;) {
    const { bytesRead } = await file.read(buffer, 0, buffer.length, null)
    if (bytesRead === 0) return
    spend(bytesRead)
    await copy.writeFile(buffer.subarray(0, bytesRead))
  }
}

/** Does work for all of some items, so many at once; throws what the first one that failed threw. */
async function inParts<T>(items: T[], atOnce: number, work: (item: T) => Promise<void>) {
  for (let start = 0; start < items.length; start += atOnce) {
    const results = await Promise.allSettled(items.slice(start, start + atOnce).map(work))
    for (const result of results) if (result.status === 'rejected') throw result.reason
  }
}
