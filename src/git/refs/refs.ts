import { open, readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { isAbsence } from '../../base/absence.ts'
import { forEachConcurrently } from '../../base/for-each-concurrently.ts'
import { Problem } from '../../base/problem.ts'
import { lookUpPacked } from './packed-lookup.ts'
import { isRefName, zeroId } from './ref-name.ts'
import { symbolicTarget } from './symbolic-target.ts'

/** What a ref was changed from and to, as hex object ids; all zeros stand for a ref that is not there. */
export type RefUpdate = { ref: string; before: string; after: string }

/** The same of a push that has come to pass; it was forced when the new value does not have the old one in its history. */
export type PushedUpdate = RefUpdate & { forced: boolean }

const symbolicDepth = 5
const readsAtOnce = 32
// More of them are found sooner by reading the whole file once.
const lookUpsAtMost = 64
const noRefs: ReadonlyMap<string, string> = new Map()

/** The full name of the ref that would really move when `ref` is written: gitglossary, "symref". */
export async function resolveSymbolicRef(directory: string, ref: string): Promise<string> {
  let name = ref
  for (let depth = 0; depth < symbolicDepth; depth++) {
    const target = symbolicTarget(await readLoose(directory, name))
    if (target === undefined) return name
    // A repository that was copied from a stranger may name any file of this machine here, or a pipe.
    if (!isRefName(target)) return name
    name = target
  }
  return name
}

/** The same of many. */
export async function resolveSymbolicRefs(
  directory: string,
  refs: string[],
): Promise<Map<string, string>> {
  const targets = new Map<string, string>()
  await forEachConcurrently(readsAtOnce, new Set(refs), async (ref) => {
    targets.set(ref, await resolveSymbolicRef(directory, ref))
  })
  return targets
}

/** The values of refs by full name, read from a repository of the "files" format: gitrepository-layout(5). */
export async function readRefs(directory: string, refs: string[]): Promise<Map<string, string>> {
  const values = new Map<string, string>()
  const rest = new Map<string, string>()
  await forEachConcurrently(readsAtOnce, refs, async (ref) => {
    const name = await resolveSymbolicRef(directory, ref)
    const loose = (await readLoose(directory, name)).trim()
    if (loose !== '') values.set(ref, loose)
    else rest.set(ref, name)
  })
  if (rest.size === 0) return values
  const packed = await readSomePacked(directory, new Set(rest.values()))
  for (const [ref, name] of rest) values.set(ref, packed.get(name) ?? zeroId)
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
  const target = symbolicTarget(await readLoose(directory, 'HEAD')) ?? ''
  const [, branch = 'main'] = /^refs\/heads\/(.+)$/.exec(target) ?? []
  return branch
}

/** Where refs are that nobody but the service sees. */
export const hiddenRefs = 'refs/svc'

/** Any refs, or those alone that clients can see. */
type Which = 'any' | 'visible'

/** Whether a repository has a ref. */
export async function hasRefs(directory: string, which: Which): Promise<boolean> {
  // Loose before packed: a ref that is being packed is then seen in one place at least.
  const isWanted = isAmong(which)
  if (await hasFile(directory, 'refs', isWanted)) return true
  return (await readPacked(directory, isWanted, 1)).size > 0
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

/** All refs with their values, sorted in no way. */
export async function readAllRefs(directory: string): Promise<Map<string, string>> {
  const names = await looseNames(directory, 'refs')
  // Loose before packed: a ref that is being packed is then seen in one place at least.
  const loose = await Promise.all(
    names.map(async (name) => {
      const target = await resolveSymbolicRef(directory, name)
      return { name, target, id: (await readLoose(directory, target)).trim() }
    }),
  )
  const packed = await readPacked(directory, () => true, Number.POSITIVE_INFINITY)
  const all = new Map(packed)
  for (const { name, target, id } of loose) {
    const value = isObjectId(id) ? id : packed.get(target)
    if (value !== undefined) all.set(name, value)
  }
  return all
}

/** The full names of all refs, sorted in no way. */
export async function listRefs(directory: string): Promise<string[]> {
  return [...(await readAllRefs(directory)).keys()]
}

async function looseNames(directory: string, folder: string): Promise<string[]> {
  const entries = await readdir(join(directory, folder), { withFileTypes: true }).catch(
    absentAs([]),
  )
  const names: string[] = []
  for (const entry of entries) {
    const name = `${folder}/${entry.name}`
    if (entry.isDirectory()) names.push(...(await looseNames(directory, name)))
    // A lock has the name of no ref, though it may hold what a ref is about to become.
    else if (isRefName(name)) names.push(name)
  }
  return names
}

function isAmong(which: Which): (ref: string) => boolean {
  return (ref) => which === 'any' || !`${ref}/`.startsWith(`${hiddenRefs}/`)
}

function isObjectId(text: string): boolean {
  return /^[0-9a-f]{40}$/.test(text)
}

function readLoose(directory: string, ref: string): Promise<string> {
  return readFile(join(directory, ref), 'utf8').catch(absentAs(''))
}

async function readSomePacked(
  directory: string,
  wanted: Set<string>,
): Promise<ReadonlyMap<string, string>> {
  const lookedUp =
    wanted.size <= lookUpsAtMost
      ? await lookUpPacked(join(directory, 'packed-refs'), wanted).catch(absentAs(noRefs))
      : undefined
  return lookedUp ?? readPacked(directory, (ref) => wanted.has(ref), wanted.size)
}

async function readPacked(
  directory: string,
  isWanted: (ref: string) => boolean,
  most: number,
): Promise<Map<string, string>> {
  const found = new Map<string, string>()
  // Lines that are not read to their end leave the file open, and one that nobody closes ends the program.
  await using file = await open(join(directory, 'packed-refs')).catch(absentAs(undefined))
  if (!file) return found
  for await (const line of file.readLines()) {
    const [, id = '', ref = ''] = /^([0-9a-f]{40}) (.+)$/.exec(line) ?? []
    if (ref !== '' && isWanted(ref)) found.set(ref, id)
    if (found.size >= most) break
  }
  return found
}

async function hasFile(
  directory: string,
  folder: string,
  isWanted: (path: string) => boolean,
): Promise<boolean> {
  const path = join(directory, folder)
  for (const entry of await readdir(path, { withFileTypes: true }).catch(absentAs([]))) {
    const name = `${folder}/${entry.name}`
    if (!isWanted(name)) continue
    if (!entry.isDirectory() || (await hasFile(directory, name, isWanted))) return true
  }
  return false
}

// Files of a live repository come and go between two looks; a ref may also be the folder of others.
function absentAs<T>(value: T): (error: unknown) => T {
  return (error) => {
    if (isAbsence(error)) return value
    throw error
  }
}
