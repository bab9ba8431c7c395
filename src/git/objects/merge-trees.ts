import { chunksOf } from '#base/chunks.ts'
import { isObjectId } from '#base/object-id.ts'
import { gitCommands } from '../process/commands.ts'
import { type Git, GitError } from '../process/git-process.ts'

/** The result of a merge: its tree and, if it has conflicts, what they are about. */
export type TreeMerge = { tree: string; conflicts: FileConflict[] | undefined }

/** A file that conflicts. Its name is bytes (latin1). */
export type FileConflict = { path: string; kinds: string[]; messages: string[] }

// A message has the names of files, so this is some 10,000 conflicts.
const outputMaxBytes = 4 * 1024 * 1024

/**
 * Merges two commits without a working tree, as `git merge` does; the new objects go to the object directory of that git:
 * https://git-scm.com/docs/git-merge-tree. Undefined when there are too many conflicts to list. Throws a GitError, and
 * the reason of the signal, which ends git.
 */
export async function mergeTrees(
  git: Pick<Git, 'start'>,
  directory: string,
  { ours, theirs, signal }: { ours: string; theirs: string; signal: AbortSignal },
): Promise<TreeMerge | undefined> {
  await using child = await git.start(gitCommands.mergeTrees(directory, ours, theirs))
  child.stdin.end()
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of chunksOf(child.stdout, signal)) {
    bytes += chunk.length
    if (bytes > outputMaxBytes) return undefined
    chunks.push(chunk)
  }
  const ended = await child.ended
  const hasConflicts = ended.exitCode === 1
  if (ended.exitCode !== 0 && !hasConflicts) throw new GitError('merge-tree', ended)
  const fields = Buffer.concat(chunks).toString('latin1').split('\0')
  const [tree = ''] = fields
  if (!isObjectId(tree)) throw new GitError('merge-tree', ended)
  return { tree, conflicts: hasConflicts ? conflictsIn(fields) : undefined }
}

/** Reads the conflicted files, `<mode> <id> <stage>\t<path>` up to an empty field, and the messages, each about some paths. */
function conflictsIn(fields: string[]): FileConflict[] {
  const byPath = new Map<string, FileConflict>()
  const about = (path: string) => {
    const known = byPath.get(path) ?? { path, kinds: [], messages: [] }
    byPath.set(path, known)
    return known
  }
  const end = fields.indexOf('', 1)
  for (const field of fields.slice(1, end)) about(field.slice(field.indexOf('\t') + 1))
  for (let at = end + 1; at < fields.length - 1; ) {
    const count = Number(fields[at])
    const paths = fields.slice(at + 1, at + 1 + count)
    const [kind = '', message = ''] = fields.slice(at + 1 + count, at + 3 + count)
    at += count + 3
    const [, conflict] = /^CONFLICT \((.*)\)$/.exec(kind) ?? []
    if (conflict === undefined) continue
    for (const path of paths) {
      if (!byPath.has(path)) continue
      const { kinds, messages } = about(path)
      if (!kinds.includes(conflict)) kinds.push(conflict)
      messages.push(Buffer.from(message, 'latin1').toString('utf8').trim())
    }
  }
  return [...byPath.values()]
}
