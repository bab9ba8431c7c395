import type { Readable } from 'node:stream'
import { gitCommands } from '../process/commands.ts'
import type { Git } from '../process/git-process.ts'

/** An object as git-cat-file(1) prints it. */
type GitObject = { id: string; type: string; content: Buffer }

/** An entry of a tree; the mode is in octal, `100644` for a file, `120000` for a symbolic link. */
export type TreeEntry = { mode: string; name: string; id: string }

export type ObjectReader = AsyncDisposable & {
  /** Reads an object by id or revision expression; undefined when there is none. Throws an ObjectTooLargeError. */
  read: (name: string, maxBytes: number) => Promise<GitObject | undefined>
}

/** Thrown for an object larger than the requested limit. */
export class ObjectTooLargeError extends Error {
  override readonly name = 'ObjectTooLargeError'
}

const newline = 0x0a
const idBytes = 20

/** Opens a reader of a repository's objects, one at a time, backed by a single git process. */
export async function openObjects(git: Git, directory: string): Promise<ObjectReader> {
  const child = await git.start(gitCommands.readObjects(directory))
  const output = createTaker(child.stdout)

  async function query(request: string): Promise<{ id: string; type: string; bytes: number }> {
    child.stdin.write(`${request}\n`)
    const header = (await output.take(newline)).toString()
    const [, id = '', type = '', bytes = ''] = /^([0-9a-f]{40}) (\w+) (\d+)$/.exec(header) ?? []
    return { id, type, bytes: Number(bytes) }
  }

  return {
    async read(name, maxBytes) {
      const { id, bytes } = await query(`info ${name}`)
      if (id === '') return undefined
      if (bytes > maxBytes) throw new ObjectTooLargeError(`${name} has ${bytes} bytes`)
      const { type } = await query(`contents ${id}`)
      const content = await output.takeBytes(bytes)
      await output.takeBytes(1) // The newline after the content.
      return { id, type, content }
    },

    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  }
}

export type KeptObjects = AsyncDisposable & {
  /** Returns a reader of a repository, reused until another repository is requested. */
  of: (directory: string) => Promise<ObjectReader>
}

/** Keeps a reader open between reads from the same repository. */
export function keepObjects(git: Git): KeptObjects {
  let kept: { directory: string; reader: ObjectReader } | undefined

  async function close(): Promise<void> {
    const closed = kept
    kept = undefined
    await closed?.reader[Symbol.asyncDispose]()
  }

  return {
    async of(directory) {
      if (kept?.directory !== directory) {
        await close()
        kept = { directory, reader: await openObjects(git, directory) }
      }
      return kept.reader
    },
    [Symbol.asyncDispose]: close,
  }
}

/** Parses a tree object: `<mode> <name>`, a NUL and a binary object id for each entry. */
export function parseTree(content: Buffer): TreeEntry[] {
  const entries: TreeEntry[] = []
  for (let at = 0; at < content.length; ) {
    const space = content.indexOf(0x20, at)
    const nul = content.indexOf(0, space)
    if (space === -1 || nul === -1) break
    entries.push({
      mode: content.toString('latin1', at, space),
      name: content.toString('utf8', space + 1, nul),
      id: content.toString('hex', nul + 1, nul + 1 + idBytes),
    })
    at = nul + 1 + idBytes
  }
  return entries
}

function createTaker(stream: Readable) {
  const chunks: AsyncIterator<Buffer> = stream[Symbol.asyncIterator]()
  let waiting: Buffer = Buffer.alloc(0)

  async function more(): Promise<void> {
    const { value, done } = await chunks.next()
    if (done) throw new Error('git cat-file ended before its response')
    waiting = Buffer.concat([waiting, value])
  }

  function split(at: number): Buffer {
    const taken = waiting.subarray(0, at)
    waiting = waiting.subarray(at)
    return taken
  }

  return {
    /** Takes the bytes before a delimiter, and drops the delimiter. */
    async take(byte: number): Promise<Buffer> {
      for (;;) {
        const at = waiting.indexOf(byte)
        if (at !== -1) return split(at + 1).subarray(0, at)
        await more()
      }
    },

    async takeBytes(count: number): Promise<Buffer> {
      while (waiting.length < count) await more()
      return split(count)
    },
  }
}
