import type { Static } from 'typebox'
import { formatOf, isObjectId, type ObjectFormat } from '#base/object-id.ts'
import { type FieldError, Problem } from '#base/problem.ts'
import { isTree, type TreeEditor, type TreeItem } from '#git/objects/edit-tree.ts'
import { type NewObject, toObject } from '#git/objects/new-objects.ts'
import { invalid } from '#http/validation.ts'
import { type Change, pathMaxBytes } from './write-schemas.ts'

/** A change whose fields are checked. Paths are split; each character of a name is a byte (latin1). */
type CheckedChange = {
  index: number
  path: string[]
  from: string[] | undefined
  isDeletion: boolean
  content: Buffer | undefined
  mode: string | undefined
}

type NewBlob = NewObject & { path: string[] }

const maxDepth = 100
const maxDirectories = 10_000
const submodule = '160000'
const symbolicLink = '120000'

/**
 * Applies the changes of a commit to a tree: first removes what is deleted or moved away, then adds the rest. Returns the
 * new files. Throws `invalid_request`, `path_absent` and `path_conflict`.
 */
export async function applyChanges(
  editor: TreeEditor,
  given: readonly Static<typeof Change>[],
  format: ObjectFormat,
): Promise<NewBlob[]> {
  const changes = checkChanges(given)
  const moved = await removeAll(editor, changes)
  const blobs: NewBlob[] = []
  for (const change of changes.filter(({ isDeletion }) => !isDeletion)) {
    const item = await itemOf(editor, change, moved.get(change), { blobs, format })
    const obstacle = await editor.put(change.path, item)
    if (obstacle) throw conflict(change, `"${shown(obstacle)}" is a file, not a directory`)
  }
  return blobs
}

/** Removes what is deleted or moved; returns what is moved, by its change. */
async function removeAll(
  editor: TreeEditor,
  changes: CheckedChange[],
): Promise<Map<CheckedChange, TreeItem>> {
  const moved = new Map<CheckedChange, TreeItem>()
  const gone: string[][] = []
  for (const change of changes) {
    const from = change.isDeletion ? change.path : change.from
    if (!from) continue
    const item = await editor.find(from)
    if (!item) {
      const action = change.isDeletion ? 'deleted' : 'moved'
      const detail = `"${shown(from)}" does not exist, so it cannot be ${action}.`
      throw new Problem('path_absent', detail)
    }
    gone.push(from)
    if (!change.isDeletion) moved.set(change, item)
  }
  for (const path of gone) await editor.remove(path)
  return moved
}

/** The new entry of a change that is no deletion. */
async function itemOf(
  editor: TreeEditor,
  change: CheckedChange,
  source: TreeItem | undefined,
  { blobs, format }: { blobs: NewBlob[]; format: ObjectFormat },
): Promise<TreeItem> {
  const { path, content, mode: given, index } = change
  const present = await editor.find(path)
  if (present && isTree(present)) throw conflict(change, 'it is a directory')
  if (present && source) throw conflict(change, 'it exists; delete it, or move it, too')
  const former = source ?? present
  const isDirectory = former !== undefined && isTree(former)
  if (isDirectory && (content || given)) throw conflict(change, 'it is a directory')
  const mode = given ?? former?.mode ?? '100644'
  if (!content) {
    if (!former) {
      const detail = `"${shown(path)}" does not exist, so it has no mode to change.`
      throw new Problem('path_absent', detail)
    }
    if ((mode === submodule) !== (former.mode === submodule))
      throw invalidAt(index, 'mode', 'takes a content, too, when a submodule is added or replaced.')
    if (mode === symbolicLink && former.id === toObject('blob', Buffer.alloc(0), format).id)
      throw invalidAt(index, 'mode', 'cannot be that of a symbolic link for an empty file.')
    return { ...former, mode }
  }
  if (mode === submodule) {
    const id = content.toString('latin1').trim()
    if (isObjectId(id) && formatOf(id) === format) return { mode, id }
    throw invalidAt(
      index,
      'content',
      'must be the id of a commit in the object format of the repository, for a submodule.',
    )
  }
  // A clone could not check it out: symlink(2).
  if (mode === symbolicLink && (content.length === 0 || content.includes(0)))
    throw invalidAt(
      index,
      'content',
      'must be a target for a symbolic link: not empty, without NUL.',
    )
  const blob = toObject('blob', content, format)
  blobs.push({ ...blob, path })
  return { mode, id: blob.id }
}

/** Checks the fields of changes. Throws `invalid_request`. */
function checkChanges(given: readonly Static<typeof Change>[]): CheckedChange[] {
  const errors: FieldError[] = []
  const fail = (index: number, field: string, detail: string) =>
    errors.push({ pointer: `/changes/${index}${field}`, detail })
  const changes = given.map((change, index): CheckedChange => {
    for (const field of ['path', 'moveFrom'] as const) {
      const text = change[field]
      const fault = text === undefined ? undefined : pathFault(text)
      if (fault) fail(index, `/${field}`, fault)
    }
    const { content, contentBase64, moveFrom, mode } = change
    const contents = [content, contentBase64].filter((one) => one !== undefined)
    const isDeletion = change.delete === true
    if (contents.length === 2) fail(index, '/contentBase64', 'cannot be given with `content`.')
    if (isDeletion && (contents.length > 0 || moveFrom !== undefined || mode !== undefined))
      fail(index, '/delete', 'cannot be given with another change of the path.')
    if (!isDeletion && contents.length === 0 && moveFrom === undefined && mode === undefined)
      fail(index, '', 'must have `content`, `contentBase64`, `delete`, `moveFrom` or `mode`.')
    if (content !== undefined && !content.isWellFormed())
      fail(index, '/content', 'is not valid Unicode: it has a lone surrogate.')
    const decoded = contentBase64 === undefined ? undefined : decode(contentBase64)
    if (contentBase64 !== undefined && !decoded)
      fail(index, '/contentBase64', 'is not Base64, with `+`, `/` and padding.')
    return {
      index,
      path: toSegments(change.path),
      from: moveFrom === undefined ? undefined : toSegments(moveFrom),
      isDeletion,
      content: content === undefined ? decoded : Buffer.from(content),
      mode,
    }
  })
  if (errors.length > 0) throw invalid(errors)
  assertDistinct(changes)
  assertFewDirectories(changes)
  return changes
}

function pathFault(path: string): string | undefined {
  if (!path.isWellFormed()) return 'is not valid Unicode: it has a lone surrogate.'
  if (path.includes('\0')) return 'has a NUL.'
  if (Buffer.byteLength(path) > pathMaxBytes) return `has more than ${pathMaxBytes} bytes.`
  const names = path.split('/')
  if (names.length > maxDepth) return `has more than ${maxDepth} levels.`
  if (names.some((name) => name === ''))
    return 'has an empty name: it neither begins nor ends with a slash, and has no two in a row.'
  if (names.some((name) => name === '.' || name === '..')) return 'has the name `.` or `..`.'
  return undefined
}

/** Each path may be written once, and go once, also as a part of a directory. */
function assertDistinct(changes: CheckedChange[]): void {
  const written = new Set<string>()
  const gone: { key: string; index: number }[] = []
  for (const { path, from, isDeletion, index } of changes) {
    const key = path.join('/')
    if (!isDeletion && written.has(key)) throw invalidAt(index, 'path', 'is changed twice.')
    if (!isDeletion) written.add(key)
    const source = isDeletion ? path : from
    if (source) gone.push({ key: `${source.join('/')}/`, index })
  }
  gone.sort((a, b) => (a.key < b.key ? -1 : 1))
  for (const [at, { key, index }] of gone.entries()) {
    const former = gone[at - 1]
    if (former && key.startsWith(former.key))
      throw invalidAt(index, 'path', `is deleted or moved by /changes/${former.index}, too.`)
  }
}

function assertFewDirectories(changes: CheckedChange[]): void {
  const directories = new Set<string>()
  for (const { path, from, index } of changes) {
    for (const names of from ? [path, from] : [path]) {
      let directory = ''
      for (const name of names.slice(0, -1)) {
        directory += `${name}/`
        directories.add(directory)
      }
    }
    if (directories.size > maxDirectories)
      throw invalidAt(index, 'path', `leads to more than ${maxDirectories} directories in all.`)
  }
}

function invalidAt(index: number, field: string, detail: string): Problem {
  return invalid([{ pointer: `/changes/${index}/${field}`, detail }])
}

function conflict({ path }: CheckedChange, reason: string): Problem {
  return new Problem('path_conflict', `"${shown(path)}" cannot be written: ${reason}.`)
}

function toSegments(path: string): string[] {
  return Buffer.from(path).toString('latin1').split('/')
}

/** A path as text. */
export function shown(path: readonly string[]): string {
  return Buffer.from(path.join('/'), 'latin1').toString('utf8')
}

// Buffer.from skips what is not Base64.
function decode(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64')
  return bytes.toString('base64') === text ? bytes : undefined
}
