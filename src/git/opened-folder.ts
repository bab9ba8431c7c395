import { constants, type Dirent } from 'node:fs'
import { type FileHandle, open, readdir, readlink } from 'node:fs/promises'

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants

/** What is found where a symbolic link, a pipe or a device is not followed, opened or waited for. */
export class OddFile extends Error {
  override readonly name = 'OddFile'
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

  async entries(): Promise<Dirent[]> {
    return readdir(this.#path(), { withFileTypes: true })
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

  /** The text of a file in it, or of its first bytes; empty when there is none. */
  async text(name: string, maxBytes: number): Promise<string> {
    await using file = await this.file(name)
    if (!file) return ''
    const buffer = Buffer.alloc(maxBytes)
    const { bytesRead } = await file.read(buffer, 0, maxBytes, 0)
    return buffer.toString('utf8', 0, bytesRead)
  }

  async #open(name: string, flags: number): Promise<FileHandle | undefined> {
    return open(`${this.#path()}/${name}`, flags).catch((error) => {
      if (error.code === 'ENOENT') return undefined
      throw oddCodes.has(error.code) ? this.#odd(name) : error
    })
  }

  #odd(name: string): OddFile {
    return new OddFile(this.#nameOf(name))
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
export function pathOf(handle: FileHandle): string {
  return `/proc/self/fd/${handle.fd}`
}

// A link; a link or a file where a folder should be; a folder where a file should be; a socket.
const oddCodes = new Set(['ELOOP', 'ENOTDIR', 'EISDIR', 'ENXIO'])
