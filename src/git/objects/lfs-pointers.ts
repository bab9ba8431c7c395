import { gitCommands } from '../process/commands.ts'
import type { Git, GitStartOptions } from '../process/git-process.ts'
import { listObjects, listReachableSmallBlobs, readObjects } from './object-stream.ts'
import type { PackedObject } from './pack.ts'

/** What a pointer says of a Git LFS object: its SHA-256 id, and its size in bytes. */
export type LfsPointer = { oid: string; size: number }

/** A file that stands for a Git LFS object, with the id of its blob. */
export type PointerFile = LfsPointer & { id: string }

type Search = {
  /** The start options of each git process. */
  options: GitStartOptions
  signal: AbortSignal
  /** Called before each batch of files is read. */
  onBatch?: () => void
}

// https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md, "The Pointer", with the addresses of earlier versions. There is
// no object of no bytes.
const pointer =
  /^version (?:https:\/\/git-lfs\.github\.com\/spec\/v1|https:\/\/hawser\.github\.com\/spec\/v1|http:\/\/git-media\.io\/v\/2)\n(?:ext-\d-\w+ [^\n]*\n)*oid sha256:([0-9a-f]{64})\n(?:ext-\d-\w+ [^\n]*\n)*size \+?0*([1-9]\d{0,18})$/
const pointerMinBytes = 'version http://git-media.io/v/2\noid sha256:\nsize 0'.length + 64
const pointerMaxBytes = 1023
const batchSize = 50_000

/** Lists the pointers among a repository's files, in any commit. Throws the signal's reason. */
export function listLfsPointers(
  git: Git,
  directory: string,
  search: Search,
): AsyncGenerator<PointerFile, void> {
  async function* list() {
    for await (const { id, type, bytes } of listObjects(
      git,
      directory,
      search.signal,
      search.options,
    )) {
      if (type === 'blob' && mayBeLfsPointer(bytes)) yield id
    }
  }
  return readPointers(git, directory, search, list())
}

/** Finds the pointers among objects in memory. */
export function lfsPointersAmong(objects: readonly PackedObject[]): PointerFile[] {
  return objects
    .filter(({ type, content }) => type === 'blob' && mayBeLfsPointer(content.length))
    .flatMap(toPointer)
}

/**
 * The sizes of all Git LFS objects that pointers in a repository's files name, in any commit, by their ids. Throws the
 * signal's reason.
 */
export function findLfsObjects(
  git: Git,
  directory: string,
  search: Search,
): Promise<Map<string, number>> {
  return sizesIn(listLfsPointers(git, directory, search))
}

/** The same for commits that refs reach, also refs that retain overwritten commits. */
export function findReachableLfsObjects(
  git: Git,
  directory: string,
  search: Search,
): Promise<Map<string, number>> {
  const blobs = listReachableSmallBlobs(git, directory, search.signal, search.options)
  return sizesIn(readPointers(git, directory, search, blobs))
}

async function sizesIn(pointers: AsyncIterable<LfsPointer>): Promise<Map<string, number>> {
  const sizes = new Map<string, number>()
  for await (const { oid, size } of pointers) sizes.set(oid, size)
  return sizes
}

async function* readPointers(
  git: Git,
  directory: string,
  { options, signal, onBatch }: Search,
  blobs: AsyncIterable<string>,
): AsyncGenerator<PointerFile, void> {
  let batch: string[] = []
  async function* readBatch(): AsyncGenerator<PointerFile, void> {
    onBatch?.()
    for await (const blob of readObjects(git, directory, batch, signal, options))
      yield* toPointer(blob)
    batch = []
  }
  for await (const id of blobs) {
    batch.push(id)
    if (batch.length === batchSize) yield* readBatch()
  }
  if (batch.length > 0) yield* readBatch()
}

/** Whether a blob of some bytes may be a pointer. */
export function mayBeLfsPointer(bytes: number): boolean {
  return bytes >= pointerMinBytes && bytes <= pointerMaxBytes
}

function toPointer({ id, content }: PackedObject): PointerFile[] {
  const parsed = parseLfsPointer(content.toString())
  return parsed ? [{ id, ...parsed }] : []
}

/** Parses a pointer; undefined for other text. Like git-lfs, it ignores empty lines and carriage returns. */
export function parseLfsPointer(text: string): LfsPointer | undefined {
  const lines = text
    .trim()
    .split(/\r?\n/)
    .filter((line) => line !== '')
  const [, oid, size] = pointer.exec(lines.join('\n')) ?? []
  return oid === undefined ? undefined : { oid, size: Number(size) }
}

// https://github.com/git-lfs/git-lfs/blob/main/docs/man/git-lfs-config.adoc
const serverSetting = /^(?:lfs\.(?:push)?url|remote\..*\.lfs(?:push)?url)$/
const configurationMaxBytes = 64 * 1024

/** The LFS servers that the file `.lfsconfig` of a revision names, by their settings. Like git-lfs, it ignores an invalid file. */
export async function readLfsServers(
  git: Git,
  directory: string,
  revision: string,
  options?: GitStartOptions,
): Promise<Map<string, string>> {
  const command = gitCommands.listConfigIn(directory, `${revision}:.lfsconfig`)
  // It fails without such a file, as most repositories are.
  const listed = await git.runUpTo(configurationMaxBytes, command, options).catch(() => undefined)
  const entries = (listed?.toString() ?? '').split('\0').flatMap((entry) => {
    const [name = '', value = ''] = entry.split('\n', 2)
    return serverSetting.test(name) && value !== '' ? [[name, value] as const] : []
  })
  return new Map(entries)
}
