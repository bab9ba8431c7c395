import { type ObjectReader, parseTree, type TreeEntry } from '../../../git/objects/object-reader.ts'
import type { PackedObject } from '../../../git/objects/small-pack.ts'
import type { RefUpdate } from '../../../git/refs/refs.ts'

const treeMode = '40000'
const submoduleMode = '160000'
// A commit changes a few folders. Beyond these, git checks as fast.
const maxTrees = 200
const maxReads = 20
// Parsing blocks the event loop. A tree counts each time that it is parsed.
const treesMaxBytes = 2 * 1024 * 1024

/**
 * Proves that a small pack, which builds on `before`, has everything that its commits lead to and that `before` does not:
 * each entry of a new tree is in the pack, or in the tree at the same path of `before`. This is stricter than git's check,
 * which also accepts files that were moved from another folder, and needs another process. Returns the ids of objects that
 * `before` certainly reaches, as far as they were seen; undefined when it is not proven.
 */
export async function proveConnected(
  objects: readonly PackedObject[],
  { before, after }: RefUpdate,
  reader: Pick<ObjectReader, 'read'>,
): Promise<ReadonlySet<string> | undefined> {
  const reached = new Set([before])
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
    bytes += tree.content.length + (oldTree?.length ?? 0)
    if (!oldTree || bytes > treesMaxBytes) return false
    const oldEntries = parseTree(oldTree, 'latin1')
    // The commit of a submodule is not there.
    const known = new Set(oldEntries.filter(({ mode }) => mode !== submoduleMode).map(keyOf))
    if (oldId !== undefined) reached.add(oldId)
    for (const { mode, id } of oldEntries) if (mode !== submoduleMode) reached.add(id)
    const oldFolders = new Map(oldEntries.filter(isFolder).map(({ name, id }) => [name, id]))
    for (const entry of parseTree(tree.content, 'latin1')) {
      if (entry.mode === submoduleMode || known.has(keyOf(entry))) continue
      const isThere = isFolder(entry)
        ? await isComplete(entry.id, oldFolders.get(entry.name))
        : packed.get(entry.id)?.type === 'blob'
      if (!isThere) return false
    }
    return true
  }

  const base = await read(before, 'commit')
  if (!base) return undefined
  const baseTree = headOf(base).tree
  const waiting = [after]
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    if (id === before || checked.has(id)) continue
    checked.add(id)
    const commit = packed.get(id)
    if (commit?.type !== 'commit') return undefined
    const { tree, parents } = headOf(commit.content)
    if (!(await isComplete(tree, baseTree))) return undefined
    waiting.push(...parents)
  }
  return reached
}

function isFolder({ mode }: TreeEntry): boolean {
  return mode === treeMode
}

function keyOf(entry: TreeEntry): string {
  return `${isFolder(entry)} ${entry.id}`
}

// Git also reads ids in capitals. Such a commit has no tree here, so that it is left to git.
function headOf(commit: Buffer): { tree: string; parents: string[] } {
  const [, tree = '', lines = ''] =
    /^tree ([0-9a-f]{40})\n((?:parent [0-9a-f]{40}\n)*)author/.exec(commit.toString('latin1')) ?? []
  return { tree, parents: [...lines.matchAll(/[0-9a-f]{40}/g)].map(([id]) => id) }
}
