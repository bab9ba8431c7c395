import { open, readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Problem } from '../base/problem.ts'
import { isRefName, zeroId } from './ref-name.ts'

/** What a ref was changed from and to, as hex object ids; all zeros stand for a ref that is not there. */
export type RefUpdate = { ref: string; before: string; after: string }

const symbolicDepth = 5

/** The full name of the ref that would really move when `ref` is written: gitglossary, "symref". */
export async function resolveSymbolicRef(directory: string, ref: string): Promise<string> {
  let name = ref
  for (let depth = 0; depth < symbolicDepth; depth++) {
    const [, target] = /^ref: *(.+?)\s*$/.exec(await readLoose(directory, name)) ?? []
    if (target === undefined) return name
    // A repository that was copied from a stranger may name any file of this machine here, or a pipe.
    if (!isRefName(target)) return name
    name = target
  }
  return name
}

/** The values of refs by full name, read from a repository of the "files" format: gitrepository-layout(5). */
export async function readRefs(directory: string, refs: string[]): Promise<Map<string, string>> {
  const values = new Map<string, string>()
  for (const ref of refs) {
    const name = await resolveSymbolicRef(directory, ref)
    const loose = (await readLoose(directory, name)).trim()
    if (loose !== '') values.set(ref, loose)
  }
  const rest = refs.filter((ref) => !values.has(ref))
  const packed = rest.length > 0 ? await readPacked(directory, new Set(rest)) : undefined
  for (const ref of rest) values.set(ref, packed?.get(ref) ?? zeroId)
  return values
}

/** Throws `repository_damaged` for a directory in which git would see no repository. */
export async function assertRepository(directory: string): Promise<void> {
  if ((await readLoose(directory, 'HEAD')) !== '') return
  throw new Problem(
    'repository_damaged',
    'The files of this repository are damaged or missing; whoever runs the service must look at them.',
  )
}

/** The branch that HEAD names, whether it exists or not. */
export async function readDefaultBranch(directory: string): Promise<string> {
  const [, branch] = /^ref: *refs\/heads\/(.+?)\s*$/.exec(await readLoose(directory, 'HEAD')) ?? []
  return branch ?? 'main'
}

/** Whether a repository has any ref at all. */
export async function hasRefs(directory: string): Promise<boolean> {
  // Loose before packed: a ref that is being packed is then seen in one place at least.
  if (await hasFile(join(directory, 'refs'))) return true
  return (await readPacked(directory, 'any')).size > 0
}

/** Bytes that a repository's packs take. All that is pushed is kept in packs. */
export async function packBytes(directory: string): Promise<number> {
  const folder = join(directory, 'objects', 'pack')
  const names = await readdir(folder).catch(absentAs<string[]>([]))
  const sizes = await Promise.all(
    names.map((name) => stat(join(folder, name)).then(({ size }) => size, absentAs(0))),
  )
  return sizes.reduce((sum, size) => sum + size, 0)
}

/** Whether a repository has a pack to which nothing is added any more: git makes its index last. */
export async function hasIndexedPack(directory: string): Promise<boolean> {
  const names = await readdir(join(directory, 'objects', 'pack')).catch(absentAs<string[]>([]))
  return names.some((name) => name.endsWith('.idx'))
}

/** All refs with their values, sorted in no way; undefined when there are more loose ones than `looseAtMost`. */
export async function readAllRefs(
  directory: string,
  looseAtMost: number,
): Promise<Map<string, string> | undefined> {
  const names = await looseNames(directory, 'refs', looseAtMost)
  if (names.length > looseAtMost) return undefined
  // Loose before packed: a ref that is being packed is then seen in one place at least.
  const loose = await Promise.all(
    names.map(async (name) => {
      const target = await resolveSymbolicRef(directory, name)
      return { name, target, id: (await readLoose(directory, target)).trim() }
    }),
  )
  const packed = await readPacked(directory, 'all')
  const all = new Map(packed)
  for (const { name, target, id } of loose) {
    const value = isObjectId(id) ? id : packed.get(target)
    if (value !== undefined) all.set(name, value)
  }
  return all
}

/** The full names of all refs, sorted in no way. */
export async function listRefs(directory: string): Promise<string[]> {
  const all = await readAllRefs(directory, Number.POSITIVE_INFINITY)
  return [...(all?.keys() ?? [])]
}

async function looseNames(directory: string, folder: string, most: number): Promise<string[]> {
  const entries = await readdir(join(directory, folder), { withFileTypes: true }).catch(
    absentAs([]),
  )
  const names: string[] = []
  for (const entry of entries) {
    const name = `${folder}/${entry.name}`
    if (entry.isDirectory()) names.push(...(await looseNames(directory, name, most)))
    // A lock has the name of no ref, though it may hold what a ref is about to become.
    else if (isRefName(name)) names.push(name)
    if (names.length > most) break
  }
  return names
}

function isObjectId(text: string): boolean {
  return /^[0-9a-f]{40}$/.test(text)
}

function readLoose(directory: string, ref: string): Promise<string> {
  return readFile(join(directory, ref), 'utf8').catch(absentAs(''))
}

async function readPacked(
  directory: string,
  wanted: Set<string> | 'any' | 'all',
): Promise<Map<string, string>> {
  const found = new Map<string, string>()
  const most = wanted === 'all' ? Number.POSITIVE_INFINITY : wanted === 'any' ? 1 : wanted.size
  // Lines that are not read to their end leave the file open, and one that nobody closes ends the program.
  await using file = await open(join(directory, 'packed-refs')).catch(absentAs(undefined))
  if (!file) return found
  for await (const line of file.readLines()) {
    const [, id = '', ref = ''] = /^([0-9a-f]{40}) (.+)$/.exec(line) ?? []
    if (ref !== '' && (typeof wanted === 'string' || wanted.has(ref))) found.set(ref, id)
    if (found.size >= most) break
  }
  return found
}

async function hasFile(folder: string): Promise<boolean> {
  for (const entry of await readdir(folder, { withFileTypes: true }).catch(absentAs([]))) {
    if (!entry.isDirectory()) return true
    if (await hasFile(join(folder, entry.name))) return true
  }
  return false
}

// Files of a live repository come and go between two looks; a ref may also be the folder of others.
function absentAs<T>(value: T): (error: unknown) => T {
  return (error) => {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'EISDIR') return value
    throw error
  }
}
