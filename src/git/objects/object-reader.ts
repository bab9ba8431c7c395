import { gitCommands } from '../process/commands.ts'
import { type Git, GitError } from '../process/git-process.ts'
import { createObjectParser, type FoundObject, type ObjectSummary } from './object-stream.ts'

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

/** Limits of the remembered objects: they never change, but are removed some time after the last ref to them. */
const maxRemembered = 2000
const rememberedMs = 60_000

/** A command whose response is awaited. */
type Pending = {
  name: string
  wantsContent: boolean
  resolve: (found: FoundObject) => void
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
  const parse = createObjectParser(
    () => pending[0]?.wantsContent,
    (response) => settle(pending.shift(), response),
  )
  child.stdout.on('data', parse)

  function close(reason: unknown): void {
    isOpen = false
    for (const { reject } of pending.splice(0)) reject(reason)
  }

  function request(command: 'info' | 'contents', name: string): Promise<FoundObject | undefined> {
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

function settle(pending: Pending | undefined, response: FoundObject | 'ambiguous' | 'missing') {
  if (response === 'missing') pending?.miss()
  else if (response !== 'ambiguous') pending?.resolve(response)
  else pending?.reject(new AmbiguousObjectError(`${pending.name} is the start of several ids`))
}
