import { chunksOf } from '#base/chunks.ts'
import { gitCommands } from '../process/commands.ts'
import { type Git, GitError, type GitStartOptions } from '../process/git-process.ts'
import type { PackedObject } from './pack.ts'

/** An object as `git cat-file --batch-check` describes it. */
export type ObjectSummary = { id: string; type: string; bytes: number }

const newline = 0x0a

/** Lists the objects of a git's object directories, in the order in which they are stored. Throws the signal's reason. */
export async function* listObjects(
  git: Git,
  directory: string,
  signal: AbortSignal,
  options: GitStartOptions = {},
): AsyncGenerator<ObjectSummary, void, undefined> {
  await using child = await git.start(gitCommands.listObjects(directory), options)
  child.stdin.end()
  let rest = ''
  for await (const chunk of chunksOf(child.stdout, signal)) {
    const lines = (rest + chunk.toString('latin1')).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const [id = '', type = '', bytes = ''] = line.split(' ')
      yield { id, type, bytes: Number(bytes) }
    }
  }
  const ended = await child.ended
  if (ended.exitCode !== 0) throw new GitError('cat-file', ended)
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
  let chunks: Buffer[] = []
  let size = 0
  let wanted = 1
  for await (const chunk of chunksOf(child.stdout, signal)) {
    chunks.push(chunk)
    size += chunk.length
    if (size < wanted) continue
    let rest: Buffer = Buffer.concat(chunks)
    for (let object = firstObject(rest); ; object = firstObject(rest)) {
      wanted = object.end
      if (!object.found) break
      yield object.found
      rest = rest.subarray(object.end)
    }
    chunks = [rest]
    size = rest.length
  }
  const ended = await child.ended
  if (ended.exitCode !== 0) throw new GitError('cat-file', ended)
}

/** The first of some printed objects, and where it ends; its head alone when it is incomplete. */
function firstObject(output: Buffer): { end: number; found?: PackedObject } {
  const at = output.indexOf(newline)
  if (at === -1) return { end: output.length + 1 }
  const [id = '', type = '', bytes = ''] = output.toString('latin1', 0, at).split(' ')
  const end = at + 1 + Number(bytes) + 1
  if (type !== 'commit' && type !== 'blob' && type !== 'tag') {
    throw new Error(`git cat-file printed an object that was not requested: ${id} ${type}`)
  }
  if (output.length < end) return { end }
  return { end, found: { id, type, content: output.subarray(at + 1, end - 1) } }
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
    if (/^[0-9a-f]{40}$/.test(line)) found.set(names[index] ?? '', line)
  }
  return found
}
