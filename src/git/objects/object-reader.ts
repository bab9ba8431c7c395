import type { Readable } from 'node:stream'
import { gitCommands } from '../process/commands.ts'
import { type Git, GitError } from '../process/git-process.ts'
import type { ObjectSummary } from './object-stream.ts'

/** An object as git-cat-file(1) prints it. */
type GitObject = { id: string; type: string; content: Buffer }

/** Reads a repository's objects. Concurrent calls are pipelined: none waits for the response to another. */
export type ObjectReader = {
  /**
   * Finds an object by id or revision expression without a line feed; undefined when there is none. Throws an
   * AmbiguousObjectError.
   */
  find: (name: string) => Promise<ObjectSummary | undefined>
  /** Reads an object; undefined when there is none. Throws an ObjectTooLargeError, and as `find` does. */
  read: (name: string, maxBytes: number) => Promise<GitObject | undefined>
}

/** A reader with a git process of its own, which ends when it is disposed. */
export type OpenedObjects = AsyncDisposable &
  ObjectReader & {
    /** Whether its process still runs. */
    isRunning: () => boolean
  }

/** Thrown for an object larger than the requested limit. */
export class ObjectTooLargeError extends Error {
  override readonly name = 'ObjectTooLargeError'
}

/** Thrown when several objects have ids that begin with the requested digits. */
export class AmbiguousObjectError extends Error {
  override readonly name = 'AmbiguousObjectError'
}

const newline = 0x0a
const copiedMaxBytes = 1024 * 1024
/** Limits of the remembered objects: they never change, but are removed some time after the last ref to them. */
const maxRemembered = 2000
const rememberedMs = 60_000

/** A command whose response is awaited. */
type Pending = {
  name: string
  wantsContent: boolean
  resolve: (found: ObjectSummary & { content: Buffer }) => void
  reject: (error: unknown) => void
  /** Called instead of `resolve` when there is no such object. */
  miss: () => void
}

/** Opens a reader of a repository's objects, backed by a single git process. */
export async function openObjects(git: Git, directory: string): Promise<OpenedObjects> {
  const child = await git.start(gitCommands.readObjects(directory))
  const pending: Pending[] = []
  let commands: string[] = []
  let isOpen = true
  // A repeated request for a cached response needs no git.
  const remembered = new Map<string, ObjectSummary>()
  let rememberedSince = 0

  const ended = child.ended.then(
    (status) => close(status.exceeded ?? new GitError('cat-file', status)),
    (error) => close(error),
  )
  readResponses(child.stdout, pending)

  function close(reason: unknown): void {
    isOpen = false
    for (const { reject } of pending.splice(0)) reject(reason)
  }

  function request(
    command: 'info' | 'contents',
    name: string,
  ): Promise<(ObjectSummary & { content: Buffer }) | undefined> {
    if (/[\n\0]/.test(name)) return Promise.resolve(undefined)
    return new Promise((resolve, reject) => {
      if (!isOpen) {
        reject(new Error('git cat-file has ended'))
        return
      }
      const wantsContent = command === 'contents'
      pending.push({ name, wantsContent, resolve, reject, miss: () => resolve(undefined) })
      // With one write, here and in git, for the reads of many objects.
      if (commands.length === 0) process.nextTick(send)
      commands.push(`${command} ${name}\n`)
    })
  }

  function send(): void {
    if (isOpen) child.stdin.write(`${commands.join('')}flush\n`)
    commands = []
  }

  async function find(name: string): Promise<ObjectSummary | undefined> {
    if (performance.now() - rememberedSince > rememberedMs) forget()
    const before = remembered.get(name)
    if (before) return before
    const found = await request('info', name)
    if (!found) return undefined
    const summary = { id: found.id, type: found.type, bytes: found.bytes }
    if (found.id === name) {
      if (remembered.size >= maxRemembered) forget()
      remembered.set(name, summary)
    }
    return summary
  }

  function forget(): void {
    remembered.clear()
    rememberedSince = performance.now()
  }

  return {
    find,

    async read(name, maxBytes) {
      const summary = await find(name)
      if (!summary) return undefined
      const { id, type, bytes } = summary
      if (bytes > maxBytes) throw new ObjectTooLargeError(`${name} has ${bytes} bytes`)
      const found = await request('contents', id)
      return found && { id, type, content: found.content }
    },

    isRunning: () => isOpen,

    async [Symbol.asyncDispose]() {
      await child[Symbol.asyncDispose]()
      await ended
    },
  }
}

/** Resolves pending commands in order, as their responses arrive. */
function readResponses(output: Readable, pending: Pending[]): void {
  let chunks: Buffer[] = []
  let size = 0
  /** The size from which on there is something to parse. */
  let wanted = 1

  output.on('data', (chunk: Buffer) => {
    chunks.push(chunk)
    size += chunk.length
    if (size < wanted) return
    const bytes = chunks.length === 1 ? chunk : Buffer.concat(chunks, size)
    let at = 0
    for (let next = pending[0]; next && at < bytes.length; next = pending[0]) {
      const response = firstResponse(bytes, at, next)
      wanted = response.end - at
      if (response.end > bytes.length) break
      wanted = 1
      pending.shift()
      settle(next, response.found ?? 'missing')
      at = response.end
    }
    chunks = at < bytes.length ? [bytes.subarray(at)] : []
    size = bytes.length - at
  })
}

type Found = ObjectSummary & { content: Buffer }

/** The response to a command, and where it ends; beyond the bytes when it is incomplete. */
function firstResponse(
  bytes: Buffer,
  at: number,
  { wantsContent }: Pending,
): { end: number; found?: Found | 'ambiguous' } {
  const lineEnd = bytes.indexOf(newline, at)
  if (lineEnd === -1) return { end: bytes.length + 1 }
  const header = bytes.toString('latin1', at, lineEnd)
  const [, id = '', type = '', digits = ''] = /^([0-9a-f]{40}) (\w+) (\d+)$/.exec(header) ?? []
  if (id === '') {
    return header.endsWith(' ambiguous')
      ? { end: lineEnd + 1, found: 'ambiguous' }
      : { end: lineEnd + 1 }
  }
  const summary = { id, type, bytes: Number(digits) }
  if (!wantsContent) return { end: lineEnd + 1, found: { ...summary, content: Buffer.alloc(0) } }
  const start = lineEnd + 1
  const end = start + summary.bytes + 1
  if (end > bytes.length) return { end }
  const part = bytes.subarray(start, end - 1)
  // A copy, so that a small object does not keep the buffer of many others in memory.
  const content = part.length > copiedMaxBytes ? part : Buffer.from(part)
  return { end, found: { ...summary, content } }
}

function settle({ name, resolve, reject, miss }: Pending, found: Found | 'ambiguous' | 'missing') {
  if (found === 'missing') miss()
  else if (found === 'ambiguous')
    reject(new AmbiguousObjectError(`${name} is the start of several ids`))
  else resolve(found)
}
