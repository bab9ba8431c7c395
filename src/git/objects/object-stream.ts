import { chunksOf } from '#base/chunks.ts'
import { isObjectId } from '#base/object-id.ts'
import { gitCommands } from '../process/commands.ts'
import { type Git, GitError, type GitStartOptions } from '../process/git-process.ts'
import type { PackedObject } from './pack.ts'

/** An object as `git cat-file --batch-check` describes it. */
export type ObjectSummary = { id: string; type: string; bytes: number }

export type FoundObject = ObjectSummary & { content: Buffer }

const newline = 0x0a
const copiedMaxBytes = 1024 * 1024
const nothing = { id: '', type: 'missing', content: Buffer.alloc(0) }

/** Lists the objects of a git's object directories, in the order in which they are stored. Throws the signal's reason. */
export async function* listObjects(
  git: Git,
  directory: string,
  signal: AbortSignal,
  options: GitStartOptions = {},
): AsyncGenerator<ObjectSummary, void, undefined> {
  for await (const line of linesOf(git, gitCommands.listObjects(directory), signal, options)) {
    const [id = '', type = '', bytes = ''] = line.split(' ')
    yield { id, type, bytes: Number(bytes) }
  }
}

/** Lists the ids of all blobs of at most 1 KiB that refs reach. Throws the signal's reason. */
export function listReachableSmallBlobs(
  git: Git,
  directory: string,
  signal: AbortSignal,
  options: GitStartOptions = {},
): AsyncGenerator<string, void, undefined> {
  return linesOf(git, gitCommands.listReachableSmallBlobs(directory), signal, options)
}

async function* linesOf(
  git: Git,
  command: string[],
  signal: AbortSignal,
  options: GitStartOptions,
): AsyncGenerator<string, void, undefined> {
  await using child = await git.start(command, options)
  child.stdin.end()
  let rest = ''
  for await (const chunk of chunksOf(child.stdout, signal)) {
    const lines = (rest + chunk.toString('latin1')).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
  const ended = await child.ended
  if (ended.exitCode !== 0) throw new GitError(command[1] ?? '', ended)
}

/** Reads objects, in the order of their ids. Throws the signal's reason. */
export async function* readObjects(
  git: Git,
  directory: string,
  ids: readonly string[],
  signal: AbortSignal,
  options: GitStartOptions = {},
): AsyncGenerator<PackedObject, void, undefined> {
  await using child = await git.start(gitCommands.printObjects(directory), options)
  child.stdin.end(ids.map((id) => `${id}\n`).join(''))
  const objects: PackedObject[] = []
  const parse = createObjectParser(
    () => true,
    (response) => objects.push(requested(response)),
  )
  for await (const chunk of chunksOf(child.stdout, signal)) {
    parse(chunk)
    yield* objects.splice(0)
  }
  const ended = await child.ended
  if (ended.exitCode !== 0) throw new GitError('cat-file', ended)
}

function requested(response: FoundObject | 'ambiguous' | 'missing'): PackedObject {
  const { id, type, content } = typeof response === 'string' ? nothing : response
  if (type === 'commit' || type === 'blob' || type === 'tag') return { id, type, content }
  throw new Error(`git cat-file printed an object that was not requested: ${id} ${type}`)
}

/**
 * Parses what git-cat-file(1) prints about one object after another, and passes it on. `next` returns whether the next
 * object comes with its content; undefined when none is awaited.
 */
export function createObjectParser(
  next: () => boolean | undefined,
  take: (response: FoundObject | 'ambiguous' | 'missing') => void,
): (chunk: Buffer) => void {
  let chunks: Buffer[] = []
  let size = 0
  /** The size from which on there is something to parse. */
  let wanted = 1
  return (chunk) => {
    chunks.push(chunk)
    size += chunk.length
    if (size < wanted) return
    const bytes = chunks.length === 1 ? chunk : Buffer.concat(chunks, size)
    let at = 0
    for (
      let hasContent = next();
      hasContent !== undefined && at < bytes.length;
      hasContent = next()
    ) {
      const { end, found = 'missing' } = firstResponse(bytes, at, hasContent)
      wanted = end - at
      if (end > bytes.length) break
      wanted = 1
      take(found)
      at = end
    }
    chunks = at < bytes.length ? [bytes.subarray(at)] : []
    size = bytes.length - at
  }
}

/** The first response, and where it ends; beyond the bytes when it is incomplete. */
function firstResponse(
  bytes: Buffer,
  at: number,
  hasContent: boolean,
): { end: number; found?: FoundObject | 'ambiguous' } {
  const lineEnd = bytes.indexOf(newline, at)
  if (lineEnd === -1) return { end: bytes.length + 1 }
  const header = bytes.toString('latin1', at, lineEnd)
  const start = lineEnd + 1
  const [, id = '', type = '', digits = ''] = /^([0-9a-f]{40,64}) (\w+) (\d+)$/.exec(header) ?? []
  if (id === '')
    return header.endsWith(' ambiguous') ? { end: start, found: 'ambiguous' } : { end: start }
  const summary = { id, type, bytes: Number(digits) }
  if (!hasContent) return { end: start, found: { ...summary, content: Buffer.alloc(0) } }
  const end = start + summary.bytes + 1
  if (end > bytes.length) return { end }
  const part = bytes.subarray(start, end - 1)
  // A copy, so that a small object does not keep the buffer of many others in memory.
  const content = part.length > copiedMaxBytes ? part : Buffer.from(part)
  return { end, found: { ...summary, content } }
}

/** Resolves object names; returns the ids of those that the repository has, by name. */
export async function findObjects(
  git: Git,
  directory: string,
  names: string[],
): Promise<Map<string, string>> {
  const input = names.map((name) => `${name}\n`).join('')
  const output = await git.run(gitCommands.findObjects(directory), { input })
  const found = new Map<string, string>()
  for (const [index, line] of output.trimEnd().split('\n').entries()) {
    if (isObjectId(line)) found.set(names[index] ?? '', line)
  }
  return found
}
