import { type BigIntStats, constants, type Dirent, type Stats } from 'node:fs'
import { type FileHandle, lstat, open, opendir, readlink, stat } from 'node:fs/promises'
import { ignoreAbsence } from '../../base/absence.ts'

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants

/** What is found where a symbolic link, a pipe or a device is not followed, opened or waited for, or may not be read. */
export class OddFileError extends Error {
  override readonly name = 'OddFile'
  /** What it is, as the end of a sentence. */
  readonly reason: string

  constructor(name: string, reason = 'a symbolic link or no plain file') {
    super(name)
    this.reason = reason
  }
}

/**
 * A folder that stays the one that was opened, whatever its owner does to the names on the way to it: what is
 * in it is reached through its descriptor, as openat(2) does, and symbolic links are never followed.
 */
export class OpenedFolder implements AsyncDisposable {
  readonly #handle: FileHandle
  /** The folder's name within the first one that was opened, for people; empty for that one. */
  readonly #name: string

  private constructor(handle: FileHandle, name: string) {
    this.#handle = handle
    this.#name = name
  }

  /** Opens a folder by its path. Throws the system's error, ELOOP or ENOTDIR for what is none. */
  static async open(path: string): Promise<OpenedFolder> {
    return new OpenedFolder(await open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW), '')
  }

  /** Where the folder really is: proc(5), /proc/pid/fd. */
  realPath(): Promise<string> {
    return readlink(this.#path())
  }

  /**
   * Whether it is another folder or somewhere in it, whatever either of them is called: a folder may be mounted
   * in several places. Both may be gone from where they were.
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

  /** What is in it, as it is found, so that a folder without end can be given up. */
  async *entries(): AsyncGenerator<Dirent, void, undefined> {
    yield* await opendir(this.#path())
  }

  /** A folder in it; undefined when there is nothing of that name. Throws an OddFile for what is no folder. */
  async folder(name: string): Promise<OpenedFolder | undefined> {
    const handle = await this.#open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
    return handle && new OpenedFolder(handle, this.#nameOf(name))
  }

  /** A file in it; undefined when there is nothing of that name. Throws an OddFile for what is no plain file. */
  async file(name: string): Promise<FileHandle | undefined> {
    // Opening a pipe would otherwise wait for somebody to write to it.
    const handle = await this.#open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    if (!handle || (await handle.stat()).isFile()) return handle
    await handle.close()
    throw this.#odd(name)
  }

  /** What is there under a name; undefined when there is nothing. */
  async find(name: string): Promise<Stats | undefined> {
    return lstat(`${this.#path()}/${name}`).catch(ignoreAbsence)
  }

  /** The text of a file in it, or of its first bytes; empty when there is none. */
  async text(name: string, maxBytes: number): Promise<string> {
    return (await this.textOf(name, maxBytes)) ?? ''
  }

  /** The same; undefined when there is none. */
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

/** A path to what is open, be it gone from where it was: proc(5), /proc/pid/fd. */
function pathOf(handle: FileHandle): string {
  return `/proc/self/fd/${handle.fd}`
}

function isSame(one: BigIntStats, other: BigIntStats): boolean {
  return one.dev === other.dev && one.ino === other.ino
}

// A link; a link or a file where a folder should be; a folder where a file should be; a socket.
const oddCodes = new Set(['ELOOP', 'ENOTDIR', 'EISDIR', 'ENXIO', 'ENODEV'])
const unreadableCodes = new Set(['EACCES', 'EPERM'])
