import { mkdir, open, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { forEachConcurrently } from '#base/for-each-concurrently.ts'
import { printable } from '#base/format.ts'
import { isObjectId, type ObjectFormat } from '#base/object-id.ts'
import { isRefName } from '../refs/ref-name.ts'
import {
  importFailed,
  importTooLarge,
  refsMaxBytes,
  requireUtf8,
  tooManyRefs,
} from './import-error.ts'
import { OddFileError, type OpenedFolder } from './opened-folder.ts'

type Options = {
  maxBytes: number
  /** Largest number of files and folders that are read. */
  maxEntries?: number
  objectFormat: ObjectFormat
  signal: AbortSignal
  /** Called with the number of bytes copied so far. */
  onProgress: (bytes: number) => void
  /** Has the refs, if they are not with the objects. */
  refs?: OpenedFolder | undefined
}

type Copying = {
  /** Counts bytes before they are written. Throws when there are too many, or the signal is aborted. */
  spend: (bytes: number) => void
  /** Counts entries of folders, which cost time and space regardless of their sizes. */
  count: () => void
}

const refMaxBytes = 4096
const configMaxBytes = 1024 * 1024
const defaultMaxEntries = 2_000_000
// The limit of isRefName.
const refPathMaxLength = 1024
const shownMaxLength = 200
const chunkBytes = 1024 * 1024
// Copying is bound by the disk's latency.
const maxConcurrentFiles = 32

const ownConfig = (format: ObjectFormat) =>
  `[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = ${format}\n`

/**
 * Copies the refs and objects of a repository: gitrepository-layout(5). Its hooks and settings are not copied, and
 * symbolic links are not followed. Throws an `import_failed` for a repository that is incomplete or damaged.
 */
export async function copyRepository(
  source: OpenedFolder,
  target: string,
  {
    maxBytes,
    maxEntries = defaultMaxEntries,
    objectFormat,
    signal,
    onProgress,
    refs = source,
  }: Options,
): Promise<void> {
  let total = 0
  let entries = 0
  const copying: Copying = {
    spend(bytes) {
      signal.throwIfAborted()
      total += bytes
      if (total > maxBytes) throw importTooLarge(maxBytes)
      onProgress(total)
    },
    count() {
      signal.throwIfAborted()
      entries += 1
      if (entries > maxEntries) {
        throw importFailed('The source has too many files; pack it first (git gc).')
      }
    },
  }
  try {
    await refuseParts(source)
    await mkdir(target, { mode: 0o700 })
    await writeFile(join(target, 'config'), ownConfig(objectFormat))
    // Git requires a HEAD; the source's own is read by readHead.
    await writeFile(join(target, 'HEAD'), 'ref: refs/heads/main\n')
    // Loose before packed, so that a ref that is being packed meanwhile is not missed.
    await copyFolder(refs, 'refs', target, copying, refRules)
    await copyPackedRefs(refs, target, copying)
    await copyFolder(source, 'objects', target, copying, objectRules)
  } catch (error) {
    throw explain(error)
  }
}

/** Reads the ref that HEAD points to; undefined when HEAD is detached. Throws an `import_failed` when it is damaged. */
export async function readHeadRef(source: OpenedFolder): Promise<string | undefined> {
  const head = await source.text('HEAD', refMaxBytes).catch((error) => {
    throw explain(error)
  })
  const target = symbolicTarget(head)
  if (target === undefined && !/^[0-9a-f]{40,64}\s*$/.test(head)) {
    throw importFailed('The HEAD of the source is damaged.')
  }
  return target
}

/** The target of a symbolic ref; undefined for any other content of its file. */
function symbolicTarget(content: string): string | undefined {
  return content.startsWith('ref:') ? content.slice('ref:'.length).trim() : undefined
}

function explain(error: unknown): unknown {
  if (!(error instanceof OddFileError)) return error
  return importFailed(
    `"${printable(error.message).slice(0, shownMaxLength)}" in the source is ${error.reason}; such a repository is not imported.`,
  )
}

/** Throws an `import_failed` for a repository that depends on another one, or lacks a part of its history. */
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

/** Reads the text of a repository's configuration. */
export async function readConfig(source: OpenedFolder): Promise<string> {
  const config = await source.text('config', configMaxBytes + 1).catch((error) => {
    throw explain(error)
  })
  if (Buffer.byteLength(config) <= configMaxBytes) return config
  throw importFailed('The configuration of the source is too large.')
}

async function copyPackedRefs(
  source: OpenedFolder,
  target: string,
  copying: Copying,
): Promise<void> {
  await copyNamed(source, 'packed-refs', join(target, 'packed-refs'), copying, (bytes) => {
    if (bytes > refsMaxBytes) throw tooManyRefs()
  })
  await requirePackedRefs(join(target, 'packed-refs'))
}

/** Selects the files and folders to copy. */
type Rules = {
  isFile: (path: string) => boolean
  isFolder: (path: string) => boolean
  copy: (folder: OpenedFolder, path: string, target: string, copying: Copying) => Promise<unknown>
}

const refRules: Rules = {
  isFile: isRefName,
  isFolder: (path) => path.length < refPathMaxLength && !path.endsWith('.lock'),
  copy: copyRef,
}

const objectRules: Rules = {
  isFile: (path) =>
    /^objects\/([0-9a-f]{2}\/[0-9a-f]{38,62}|pack\/pack-[0-9a-f]{40,64}\.(pack|idx))$/.test(path),
  isFolder: (path) => /^objects\/([0-9a-f]{2}|pack)$/.test(path),
  copy: (folder, path, target, copying) =>
    copyNamed(folder, nameOf(path), join(target, path), copying),
}

// Git would skip invalid lines, and the import would silently be incomplete.
async function requirePackedRefs(path: string): Promise<void> {
  await using file = await open(path).catch(() => undefined)
  if (!file) return
  for await (const line of file.readLines({ autoClose: false })) {
    const [, name] = /^[0-9a-f]{40,64} (.+)$/.exec(line) ?? []
    if (line === '' || /^#|^\^[0-9a-f]{40,64}$/.test(line)) continue
    if (name !== undefined) requireUtf8(name)
    if (name !== undefined && isRefName(name)) continue
    throw importFailed('The source is damaged: its list of refs, packed-refs, has garbage in it.')
  }
}

// One folder at a time: each open folder is a descriptor, and a hostile source may nest them without end.
async function copyFolder(
  parent: OpenedFolder,
  path: string,
  target: string,
  copying: Copying,
  rules: Rules,
): Promise<void> {
  await using folder = await parent.folder(nameOf(path))
  await mkdir(join(target, path), { mode: 0o700 })
  if (!folder) return
  const files: string[] = []
  const folders: string[] = []
  for await (const entry of folder.entries()) {
    copying.count()
    const inside = `${path}/${entry.name}`
    if (entry.isSymbolicLink()) throw new OddFileError(inside)
    if (rules === refRules) requireUtf8(inside)
    if (entry.name.endsWith('.promisor')) {
      throw importFailed('The source is a partial clone; fetch all of its objects first.')
    }
    if (!entry.isDirectory()) {
      if (rules.isFile(inside)) files.push(inside)
    } else if (rules.isFolder(inside)) folders.push(inside)
  }
  // A pack becomes visible with its index, so the pack is copied first.
  files.sort((a, b) => Number(a.endsWith('.idx')) - Number(b.endsWith('.idx')))
  await forEachConcurrently(maxConcurrentFiles, files, async (inside) => {
    await rules.copy(folder, inside, target, copying)
  })
  for (const inside of folders) await copyFolder(folder, inside, target, copying, rules)
}

/** Copies a ref. Throws for an invalid one: git would skip it, and the import would silently be incomplete. */
async function copyRef(
  folder: OpenedFolder,
  path: string,
  target: string,
  { spend }: Copying,
): Promise<void> {
  const text = await folder.textOf(nameOf(path), refMaxBytes)
  if (text === undefined) return
  const symbolic = symbolicTarget(text)
  const [id = ''] = text.split(/\s/, 1)
  const isFine = symbolic === undefined ? isObjectId(id) : isRefName(symbolic)
  if (!isFine) {
    throw importFailed(`The source is damaged: its ref "${printable(path)}" is garbage.`)
  }
  // Git ignores text after an id.
  const plain = symbolic === undefined ? `${id}\n` : text
  spend(plain.length)
  await writeFile(join(target, path), plain, { flag: 'wx' })
}

/** Copies a file; false when there is none: files of a repository in use come and go. */
export async function copyNamed(
  folder: OpenedFolder,
  name: string,
  target: string,
  { spend }: Pick<Copying, 'spend'>,
  check: (bytes: number) => void = () => {},
): Promise<boolean> {
  await using file = await folder.file(name)
  if (!file) return false
  await using copy = await open(target, 'wx', 0o600)
  // The size is only a hint: a file may grow while it is copied.
  const { size, atime, mtime } = await file.stat()
  const buffer = Buffer.allocUnsafe(Math.max(1, Math.min(size + 1, chunkBytes)))
  for (let total = 0; ; ) {
    const { bytesRead } = await file.read(buffer, 0, buffer.length, null)
    // Packs may build on older ones, and mirrorCopy takes them in order of age.
    if (bytesRead === 0) {
      await copy.utimes(atime, mtime)
      return true
    }
    total += bytesRead
    check(total)
    spend(bytesRead)
    await copy.writeFile(buffer.subarray(0, bytesRead))
  }
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}
