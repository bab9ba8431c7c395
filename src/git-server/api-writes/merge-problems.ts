import { formatOf } from '#base/object-id.ts'
import { Problem } from '#base/problem.ts'
import { createTreeEditor, isTree, type TreeEditor } from '#git/objects/edit-tree.ts'
import type { FileConflict } from '#git/objects/merge-trees.ts'
import { type ObjectReader, ObjectTooLargeError } from '#git/objects/object-reader.ts'
import { shown } from './apply-changes.ts'
import { readTree } from './required-revision.ts'

type Conflicted = {
  /** The tree with conflict markers. */
  tree: string
  conflicts: readonly FileConflict[]
  /** The commits of the merge, and what clients call them. */
  names: ReadonlyMap<string, string>
  /** The commit that is rebased, if one is. */
  commit?: string
}

const maxFiles = 100
const fileMaxBytes = 64 * 1024
const allMaxBytes = 1024 * 1024
const maxNamed = 5
const submodule = '160000'

/** The Problem of a merge with conflicts; it has the conflicted files, within limits. */
export async function mergeConflict(
  objects: ObjectReader,
  { tree, conflicts, names, commit }: Conflicted,
): Promise<Problem> {
  const editor = createTreeEditor((id) => readTree(objects, id), tree, formatOf(tree))
  let left = allMaxBytes
  const files: object[] = []
  for (const { path, kinds, messages } of conflicts.slice(0, maxFiles)) {
    const read = await readConflicted({ objects, editor }, path, Math.min(fileMaxBytes, left))
    left -= read.content?.length ?? 0
    files.push({
      path: shown([path]),
      kinds,
      messages: messages.map((message) => withNames(message, names)),
      binary: read.isBinary,
      content: read.content === undefined ? null : withNames(read.content, names),
      truncated: read.isTooLarge,
    })
  }
  const all = namesOfConflicts(conflicts)
  const where = commit === undefined ? '' : ` at the commit ${commit}`
  const detail = `These files conflict${where}: ${all}. Nothing was changed. Merge them in a clone, or change one side with a commit first.`
  return new Problem('merge_conflict', detail, {
    members: { conflicts: files, ...(commit !== undefined && { commit }) },
  })
}

/** The names of conflicted files, for a sentence. */
export function namesOfConflicts(conflicts: readonly FileConflict[]): string {
  const shownPaths = conflicts.slice(0, maxNamed).map(({ path }) => `"${shown([path])}"`)
  const more = conflicts.length - shownPaths.length
  return [...shownPaths, ...(more > 0 ? [`${more} more`] : [])].join(', ')
}

/** The Problem of a merge with more conflicts than can be listed. */
export function tooManyConflicts(commit?: string): Problem {
  const detail = 'Too many files conflict to list them. Nothing was changed; merge them in a clone.'
  return new Problem('merge_conflict', detail, {
    members: { conflicts: [], ...(commit !== undefined && { commit }) },
  })
}

async function readConflicted(
  { objects, editor }: { objects: ObjectReader; editor: TreeEditor },
  path: string,
  maxBytes: number,
): Promise<{ isBinary: boolean; isTooLarge: boolean; content?: string }> {
  const none = { isBinary: false, isTooLarge: false }
  const item = await editor.find(path.split('/'))
  if (!item || isTree(item) || item.mode === submodule) return none
  try {
    const content = (await objects.read(item.id, maxBytes))?.content ?? Buffer.alloc(0)
    const text = content.includes(0) ? undefined : toText(content)
    return text === undefined ? { ...none, isBinary: true } : { ...none, content: text }
  } catch (error) {
    if (!(error instanceof ObjectTooLargeError)) throw error
    return { ...none, isTooLarge: true }
  }
}

function toText(bytes: Buffer): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}

// Git names the sides by the ids that it was given.
function withNames(text: string, names: ReadonlyMap<string, string>): string {
  let named = text
  for (const [id, name] of names) named = named.replaceAll(id, name)
  return named
}
