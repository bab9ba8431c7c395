import { type BigIntStats, constants, type Dirent, type Stats } from 'node:fs'
import { type FileHandle, lstat, open, opendir, readlink, stat } from 'node:fs/promises'
import { ignoreAbsence } from '#base/absence.ts'

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants

/** Thrown for a symbolic link, a pipe or a device, which are never opened, and for a file that may not be read. */
export class OddFileError extends Error {
  override readonly name = 'OddFileError'
  /** A description of the file, as the end of a sentence. */
  readonly reason: string

  constructor(name: string, reason = 'a symbolic link or no plain file') {
    super(name)
    this.reason = reason
  }
}

/**
 * An open folder. Its entries are accessed through its descriptor, as with openat(2), and symbolic links are never
 * followed, so that renaming or replacing folders on its path has no effect.
 */
export class OpenedFolder implements AsyncDisposable {
  readonly #handle: FileHandle
  /** The path relative to the first folder opened, for messages; empty for that one. */
  readonly #name: string

  private constructor(handle: FileHandle, name: string) {
    this.#handle = handle
    this.#name = name
  }

  /** Opens a folder by its path. Throws the system's error: ELOOP or ENOTDIR when it is not a folder. */
  static async open(path: string): Promise<OpenedFolder> {
    return new OpenedFolder(await open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW), '')
  }

  /** Returns the folder's real path: proc(5), /proc/pid/fd. */
  realPath(): Promise<string> {
    return readlink(this.#path())
  }

  /**
   * Whether it is the same as another folder, or inside it. Compares inodes, not paths: a folder may be mounted in
   * several places.
   */
  async isIn(other: string): Promise<boolean> {
    const wanted = await stat(other, { bigint: true })
    for (let path = this.#path(), below: BigIntStats | undefined; ; path += '/..') {
      const here = await stat(path, { bigint: true })
      if (isSame(here, wanted)) return true
      if (below && isSame(here, below)) return false
      below = here
    }
  }

  /** Yields its entries one by one, so that a caller can stop early in a huge folder. */
  async *entries(): AsyncGenerator<Dirent, void, undefined> {
    yield* await opendir(this.#path())
  }

  /** Opens a subfolder; undefined when it does not exist. Throws an OddFileError when it is not a folder. */
  async folder(name: string): Promise<OpenedFolder | undefined> {
    const handle = await this.#open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
    return handle && new OpenedFolder(handle, this.#nameOf(name))
  }

  /** Opens a file; undefined when it does not exist. Throws an OddFileError when it is not a regular file. */
  async file(name: string): Promise<FileHandle | undefined> {
    // O_NONBLOCK: opening a pipe would otherwise wait for a writer.
    const handle = await this.#open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    if (!handle || (await handle.stat()).isFile()) return handle
    await handle.close()
    throw this.#odd(name)
  }

  /** Returns the metadata of an entry; undefined when it does not exist. */
  async find(name: string): Promise<Stats | undefined> {
    return lstat(`${this.#path()}/${name}`).catch(ignoreAbsence)
  }

  /** Reads the first bytes of a file as text; empty when there is no file. */
  async text(name: string, maxBytes: number): Promise<string> {
    return (await this.textOf(name, maxBytes)) ?? ''
  }

  /** Reads the first bytes of a file as text; undefined when there is no file. */
  async textOf(name: string, maxBytes: number): Promise<string | undefined> {
    await using file = await this.file(name)
    if (!file) return undefined
    const buffer = Buffer.alloc(maxBytes)
    const { bytesRead } = await file.read(buffer, 0, maxBytes, 0)
    return buffer.toString('utf8', 0, bytesRead)
  }

  async #open(name: string, flags: number): Promise<FileHandle | undefined> {
    return open(`${this.#path()}/${name}`, flags).catch((error) => {
      if (unreadableCodes.has(error.code)) throw this.#odd(name, 'not for this server to read')
      if (oddCodes.has(error.code)) throw this.#odd(name)
      return ignoreAbsence(error)
    })
  }

  #odd(name: string, reason?: string): OddFileError {
    return new OddFileError(this.#nameOf(name), reason)
  }

  #nameOf(name: string): string {
    return this.#name === '' ? name : `${this.#name}/${name}`
  }

  #path(): string {
    return pathOf(this.#handle)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#handle.close()
  }
}

/** Returns a path to an open file that stays valid when it is moved: proc(5), /proc/pid/fd. */
function pathOf(handle: FileHandle): string {
  return `/proc/self/fd/${handle.fd}`
}

function isSame(one: BigIntStats, other: BigIntStats): boolean {
  return one.dev === other.dev && one.ino === other.ino
}

// A link; a link or a file where a folder should be; a folder where a file should be; a socket.
const oddCodes = new Set(['ELOOP', 'ENOTDIR', 'EISDIR', 'ENXIO', 'ENODEV'])
const unreadableCodes = new Set(['EACCES', 'EPERM'])
