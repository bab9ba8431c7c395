import { setImmediate } from 'node:timers/promises'
import type { ObjectFormat } from '#base/object-id.ts'
import { type NewObject, toObject } from './new-objects.ts'
import { entriesOfTree } from './tree-buffer.ts'

/** An entry of a tree that is edited. The children of a tree are there once they were read. */
export type TreeItem = { mode: string; id: string; children?: TreeItems; isChanged?: boolean }
/** By name. Git treats names as bytes, so each character is a byte (latin1). */
type TreeItems = Map<string, TreeItem>

export type TreeEditor = {
  /** Finds an entry of the tree as it is now. */
  find: (path: readonly string[]) => Promise<TreeItem | undefined>
  /** Removes an entry, which exists. Trees that become empty go, too. */
  remove: (path: readonly string[]) => Promise<void>
  /** Adds or replaces an entry. Returns how much of the path is a file where a directory is needed, if so. */
  put: (path: readonly string[], item: TreeItem) => Promise<readonly string[] | undefined>
  /** The id of the tree, and its new objects with the paths of their directories. */
  write: () => Promise<{ id: string; trees: (NewObject & { path: string[] })[] }>
}

const treeMode = '40000'
// Other work goes on between as many entries.
const entriesAtOnce = 10_000

/** Edits a tree without a working tree. Directories are read when a path leads through them. */
export function createTreeEditor(
  readTree: (id: string) => Promise<Buffer>,
  rootId: string | undefined,
  format: ObjectFormat,
): TreeEditor {
  const root: TreeItem = { mode: treeMode, id: rootId ?? '' }
  if (rootId === undefined) root.children = new Map()

  async function childrenOf(tree: TreeItem): Promise<TreeItems> {
    tree.children ??= await parseItems(await readTree(tree.id), format)
    return tree.children
  }

  /** The entries on a path, from the root, as far as they are there. */
  async function walk(path: readonly string[]): Promise<TreeItem[]> {
    const items = [root]
    for (const name of path) {
      const last = items.at(-1)
      const next = last && isTree(last) ? (await childrenOf(last)).get(name) : undefined
      if (!next) break
      items.push(next)
    }
    return items
  }

  return {
    async find(path) {
      const items = await walk(path)
      return items.length === path.length + 1 ? items.at(-1) : undefined
    },

    async remove(path) {
      const items = await walk(path)
      const parent = items.at(-2)
      if (!parent || items.length !== path.length + 1) throw new Error('no such entry of the tree')
      for (const item of items.slice(0, -1)) item.isChanged = true
      parent.children?.delete(path.at(-1) ?? '')
      for (let depth = path.length - 1; depth > 0 && items[depth]?.children?.size === 0; depth--)
        items[depth - 1]?.children?.delete(path[depth - 1] ?? '')
    },

    async put(path, item) {
      const items = await walk(path.slice(0, -1))
      const last = items.at(-1)
      if (last && !isTree(last)) return path.slice(0, items.length - 1)
      for (const name of path.slice(items.length - 1, -1)) {
        const made: TreeItem = { mode: treeMode, id: '', children: new Map() }
        const parent = items.at(-1)
        if (parent) (await childrenOf(parent)).set(name, made)
        items.push(made)
      }
      for (const tree of items) tree.isChanged = true
      const parent = items.at(-1)
      if (parent) {
        const children = await childrenOf(parent)
        const name = path.at(-1) ?? ''
        // Its place in the order depends on its kind.
        const former = children.get(name)
        if (former && isTree(former) !== isTree(item)) children.delete(name)
        children.set(name, item)
      }
      return undefined
    },

    async write() {
      const trees: (NewObject & { path: string[] })[] = []
      const write = async (tree: TreeItem, path: string[]): Promise<string> => {
        if (!tree.isChanged || !tree.children) return tree.id
        for (const [name, child] of tree.children) {
          if (child.isChanged) child.id = await write(child, [...path, name])
        }
        const object = toObject('tree', await serialize(tree.children), format)
        trees.push({ ...object, path })
        return object.id
      }
      if (rootId === undefined) root.isChanged = true
      return { id: await write(root, []), trees }
    },
  }
}

export function isTree({ mode }: Pick<TreeItem, 'mode'>): boolean {
  return mode === treeMode || mode === `0${treeMode}`
}

async function parseItems(content: Buffer, format: ObjectFormat): Promise<TreeItems> {
  const items: TreeItems = new Map()
  for (const { mode, name, id } of entriesOfTree(content, 'latin1', format)) {
    items.set(name, { mode, id })
    if (items.size % entriesAtOnce === 0) await setImmediate()
  }
  return items
}

// Git compares names as bytes, those of trees as if they ended in a slash.
async function serialize(items: TreeItems): Promise<Buffer> {
  const keys = [...items].map(([name, item]) => ({ key: isTree(item) ? `${name}/` : name, name }))
  const isSorted = keys.every(({ key }, index) => index === 0 || (keys[index - 1]?.key ?? '') < key)
  if (!isSorted) keys.sort((a, b) => (a.key < b.key ? -1 : 1))
  const pieces: Buffer[] = []
  for (const { name } of keys) {
    const { mode = '', id = '' } = items.get(name) ?? {}
    pieces.push(Buffer.from(`${mode} ${name}\0`, 'latin1'), Buffer.from(id, 'hex'))
    if (pieces.length % entriesAtOnce === 0) await setImmediate()
  }
  return Buffer.concat(pieces)
}
