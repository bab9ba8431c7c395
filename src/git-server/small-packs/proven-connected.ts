import { formatOf, objectIdPattern } from '#base/object-id.ts'
import { headOfCommit } from '#git/objects/commit-object.ts'
import type { ObjectReader } from '#git/objects/object-reader.ts'
import type { PackedObject } from '#git/objects/pack.ts'
import { entriesOfTree, type TreeEntry } from '#git/objects/tree-buffer.ts'
import type { RefUpdate } from '#git/refs/refs.ts'

const treeMode = '40000'
const submoduleMode = '160000'
// As git writes them. It takes other modes, too, by their first bits: with a zero in front, `0160000` is a submodule.
const ofPresentObjects = new Set([treeMode, '100644', '100755', '120000'])
// A commit changes a few folders. Beyond these, git checks as fast.
const maxTrees = 200
const maxReads = 20
// Parsing blocks the event loop. A tree counts each time that it is parsed.
const treesMaxBytes = 2 * 1024 * 1024

/** How a small pack is complete. */
export type Proof = {
  /** The commit that its commits build on; undefined when they are a whole history. */
  base: string | undefined
  /** The ids of objects that the base certainly reaches, as far as they were seen. */
  reached: ReadonlySet<string>
  /** The ids of objects of the pack that the new value leads to. */
  needed: ReadonlySet<string>
}

type Proving = {
  objects: readonly PackedObject[]
  /** The ref's old and new value; the new one is a commit or a tag in the pack. */
  update: Pick<RefUpdate, 'before' | 'after'>
  reader: Pick<ObjectReader, 'read'>
  /** Whether refs certainly reach a commit that is not in the pack. */
  isReached: (id: string) => Promise<boolean>
}

/**
 * Proves that a repository with a small pack has everything that the new value of a ref leads to. The commits of the pack
 * build on one other commit at most, the base, which refs reach; and each entry of a new tree is in the pack, or in the tree
 * of the base at the same path, under any name. This is stricter than git's check, which also accepts several bases and files
 * that were moved from another folder, and needs another process. Undefined when it is not proven.
 */
export async function proveConnected({
  objects,
  update,
  reader,
  isReached,
}: Proving): Promise<Proof | undefined> {
  const format = formatOf(update.after)
  const reached = new Set<string>()
  const needed = new Set<string>()
  const packed = new Map(objects.map((object) => [object.id, object]))
  const old = new Map<string, Awaited<ReturnType<ObjectReader['read']>>>()
  const checked = new Set<string>()
  let bytes = 0

  async function read(id: string, type: 'commit' | 'tree'): Promise<Buffer | undefined> {
    if (!packed.has(id) && !old.has(id)) {
      if (old.size === maxReads) return undefined
      // What is too large, or cannot be read, proves nothing.
      old.set(id, await reader.read(id, treesMaxBytes - bytes).catch(() => undefined))
    }
    const object = packed.get(id) ?? old.get(id)
    return object?.type === type ? object.content : undefined
  }

  async function isComplete(treeId: string, oldId: string | undefined): Promise<boolean> {
    const key = `${treeId} ${oldId}`
    if (treeId === oldId || checked.has(key)) return true
    checked.add(key)
    const tree = packed.get(treeId)
    if (tree?.type !== 'tree' || checked.size > maxTrees) return false
    const oldTree = oldId === undefined ? Buffer.alloc(0) : await read(oldId, 'tree')
    needed.add(treeId)
    bytes += tree.content.length + (oldTree?.length ?? 0)
    if (!oldTree || bytes > treesMaxBytes) return false
    // The commit of a submodule is not there.
    const oldEntries = [...entriesOfTree(oldTree, 'latin1', format)].filter(({ mode }) =>
      ofPresentObjects.has(mode),
    )
    const known = new Set(oldEntries.map(keyOf))
    if (oldId !== undefined) reached.add(oldId)
    for (const { id } of oldEntries) reached.add(id)
    const oldFolders = new Map(oldEntries.filter(isFolder).map(({ name, id }) => [name, id]))
    for (const entry of entriesOfTree(tree.content, 'latin1', format)) {
      if (entry.mode === submoduleMode || known.has(keyOf(entry))) continue
      const isThere = isFolder(entry)
        ? await isComplete(entry.id, oldFolders.get(entry.name))
        : packed.get(entry.id)?.type === 'blob'
      if (!isThere) return false
      needed.add(entry.id)
    }
    return true
  }

  const history = historyIn(packed, update)
  if (!history || history.outside.size > 1) return undefined
  const [base] = history.outside
  let baseTree: string | undefined
  if (base !== undefined) {
    const commit = (await isReached(base)) ? await read(base, 'commit') : undefined
    if (!commit) return undefined
    baseTree = headOfCommit(commit).tree
    reached.add(base)
  }
  for (const tree of history.trees) if (!(await isComplete(tree, baseTree))) return undefined
  for (const id of history.inside) needed.add(id)
  return { base, reached, needed }
}

/**
 * The commits and tags in a pack that the new value of a ref leads to, with the trees of these commits, and the commits
 * outside of the pack that they build on.
 */
function historyIn(
  packed: ReadonlyMap<string, PackedObject>,
  { before, after }: Proving['update'],
): { inside: Set<string>; trees: string[]; outside: Set<string> } | undefined {
  const inside = new Set<string>()
  const trees: string[] = []
  const outside = new Set<string>()
  const waiting = [after]
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    if (inside.has(id) || outside.has(id)) continue
    // The old value is in the pack when git has completed a delta with it.
    const object = id === before ? undefined : packed.get(id)
    if (object) inside.add(id)
    if (object?.type === 'commit') {
      const { tree, parents } = headOfCommit(object.content)
      trees.push(tree)
      waiting.push(...parents)
    } else if (object?.type === 'tag') {
      const target = targetOf(object.content)
      if (target === undefined) return undefined
      waiting.push(target)
    } else if (object || id === after) return undefined
    else outside.add(id)
  }
  return { inside, trees, outside }
}

function isFolder({ mode }: TreeEntry): boolean {
  return mode === treeMode
}

function keyOf(entry: TreeEntry): string {
  return `${isFolder(entry)} ${entry.id}`
}

const taggedObject = new RegExp(`^object (${objectIdPattern})\\ntype (?:commit|tag)\\n`)

/** What a tag points to, if that is a commit or another tag. */
function targetOf(tag: Buffer): string | undefined {
  return taggedObject.exec(tag.toString('latin1'))?.[1]
}
