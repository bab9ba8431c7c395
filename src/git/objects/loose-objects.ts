import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { deflate, inflate } from 'node:zlib'
import { ignoreExistence } from '#base/absence.ts'
import { formatOf, isObjectId } from '#base/object-id.ts'
import { type NewObject, toObject } from './new-objects.ts'
import { entriesOfTree } from './tree-buffer.ts'

const deflateLater = promisify(deflate)
const inflateLater = promisify(inflate)

/** Writes an object as a file of an object directory: gitrepository-layout(5). It is not durable. */
export async function writeLooseObject(
  objects: string,
  { id, type, content }: NewObject,
): Promise<void> {
  const folder = join(objects, id.slice(0, 2))
  await mkdir(folder).catch(ignoreExistence)
  const bytes = Buffer.concat([Buffer.from(`${type} ${content.length}\0`), content])
  await writeFile(join(folder, id.slice(2)), await deflateLater(bytes))
}

/** Reads an object that is a file of an object directory. */
export async function readLooseObject(objects: string, id: string): Promise<NewObject> {
  const bytes = await inflateLater(await readFile(join(objects, id.slice(0, 2), id.slice(2))))
  const end = bytes.indexOf(0)
  const [type = ''] = bytes.toString('latin1', 0, end).split(' ')
  if (type !== 'commit' && type !== 'tree' && type !== 'blob')
    throw new Error(`${id} is a loose ${type}`)
  const object = toObject(type, bytes.subarray(end + 1), formatOf(id))
  if (object.id !== id) throw new Error(`the loose object ${id} is damaged`)
  return object
}

/** The ids of the objects that are files of an object directory. */
async function listLooseObjects(objects: string): Promise<Set<string>> {
  const ids = new Set<string>()
  for (const folder of await readdir(objects)) {
    if (!/^[0-9a-f]{2}$/.test(folder)) continue
    for (const name of await readdir(join(objects, folder)))
      if (isObjectId(folder + name)) ids.add(folder + name)
  }
  return ids
}

/** The ids of the loose objects that trees lead to, and that of each tree itself. */
export async function reachableLooseObjects(
  objects: string,
  roots: readonly string[],
): Promise<Set<string>> {
  const loose = await listLooseObjects(objects)
  const found = new Set<string>()
  const waiting = [...roots]
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    if (!loose.has(id) || found.has(id)) continue
    found.add(id)
    const { type, content } = await readLooseObject(objects, id)
    if (type !== 'tree') continue
    for (const entry of entriesOfTree(content, 'latin1', formatOf(id))) waiting.push(entry.id)
  }
  return found
}
