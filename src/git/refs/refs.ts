import { open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { absentAs } from '#base/absence.ts'
import { readFingerprint } from '#base/file-fingerprint.ts'
import { forEachConcurrently } from '#base/for-each-concurrently.ts'
import { Problem } from '#base/problem.ts'
import { lookUpKnownPacked, readRefFile } from './ref-files.ts'
import { isHiddenRef, isRefName, zeroId } from './ref-name.ts'

/** The old and new value of a ref, as hex object ids; all zeros mean that the ref does not exist. */
export type RefUpdate = { ref: string; before: string; after: string }

/** An update that a push has made; it was forced when the old value is not an ancestor of the new one. */
export type PushedUpdate = RefUpdate & { forced: boolean }

/** Whether an update overwrote commits: a deletion or a forced update. */
export function isOverwriting({ before, after, forced }: PushedUpdate): boolean {
  return before !== zeroId && (forced || after === zeroId)
}

/** The prefix of the full names of branches. */
export const branchPrefix = 'refs/heads/'

/** The prefix of the full names of tags. */
export const tagPrefix = 'refs/tags/'

const usualBranches = ['main', 'master', 'trunk']
const symbolicDepth = 5
const maxConcurrentReads = 32
// Beyond this, one pass over the whole file is faster.
const maxLookUps = 64
const noRefs: ReadonlyMap<string, string> = new Map()

/** Follows symbolic refs to the ref that a write to `ref` would change: gitglossary, "symref". */
export async function resolveSymbolicRef(directory: string, ref: string): Promise<string> {
  return (await readThrough(directory, ref)).name
}

/** Follows symbolic refs; returns the last ref, and the content of its file, empty if there is none. */
async function readThrough(
  directory: string,
  ref: string,
): Promise<{ name: string; content: string }> {
  let name = ref
  let content = await readLoose(directory, name)
  for (let depth = 0; depth < symbolicDepth; depth++) {
    const target = symbolicTarget(content)
    // Security: in a repository of unknown origin, this may be any path on the server, or a pipe.
    if (target === undefined || !isRefName(target)) break
    name = target
    content = await readLoose(directory, name)
  }
  return { name, content }
}

/** Resolves many refs at once. */
export async function resolveSymbolicRefs(
  directory: string,
  refs: string[],
): Promise<Map<string, string>> {
  const targets = new Map<string, string>()
  await forEachConcurrently(maxConcurrentReads, new Set(refs), async (ref) => {
    targets.set(ref, await resolveSymbolicRef(directory, ref))
  })
  return targets
}

/** Reads the values of refs by full name from a repository in the "files" format: gitrepository-layout(5). */
export async function readRefs(directory: string, refs: string[]): Promise<Map<string, string>> {
  const values = new Map<string, string>()
  const rest = new Map<string, string>()
  await forEachConcurrently(maxConcurrentReads, refs, async (ref) => {
    const { name, content } = await readThrough(directory, ref)
    const loose = content.trim()
    if (loose !== '') values.set(ref, loose)
    else rest.set(ref, name)
  })
  if (rest.size === 0) return values
  const packed = await readSomePacked(directory, new Set(rest.values()))
  for (const [ref, name] of rest) values.set(ref, packed.get(name) ?? zeroId)
  return values
}

/** Throws `repository_damaged` for a directory that git would not recognize as a repository. */
export async function assertRepository(directory: string): Promise<void> {
  if ((await readLoose(directory, 'HEAD')) !== '') return
  throw new Problem(
    'repository_damaged',
    'The files of this repository are damaged or missing; contact the administrator of the server.',
  )
}

/** Like `assertRepository`, but reads HEAD only if its size and kind do not suffice: does not wait for the disk. */
export async function assertHead(directory: string): Promise<void> {
  const head = readFingerprint(`${directory}/HEAD`)
  if (head?.kind !== 'file' || head.size === 0) await assertRepository(directory)
}

/** Returns the branch that HEAD names, even if it does not exist. */
export async function readDefaultBranch(directory: string): Promise<string> {
  const target = symbolicTarget(await readLoose(directory, 'HEAD')) ?? ''
  const [, branch = 'main'] = /^refs\/heads\/(.+)$/.exec(target) ?? []
  return branch
}

/** Chooses a default branch among the existing branches; undefined when there are none. */
export function chooseDefaultBranch(branches: string[]): string | undefined {
  return usualAmong(branches) ?? branches.toSorted()[0]
}

/** The branch that becomes the default one when a push deletes that and has these; undefined when none stands out. */
export function successorAmong(pushed: string[]): string | undefined {
  return usualAmong(pushed) ?? (pushed.length === 1 ? pushed[0] : undefined)
}

/** The branch of some that takes the place of a default branch that no user has chosen. */
export function usualInPlaceOf(branch: string, pushed: string[]): string | undefined {
  return usualBranches.includes(branch) ? undefined : usualAmong(pushed)
}

function usualAmong(branches: string[]): string | undefined {
  return usualBranches.find((name) => branches.includes(name))
}

/** The branches that updates create or move. */
export function branchesOf(updates: readonly RefUpdate[]): string[] {
  return updates
    .filter(({ ref, after }) => ref.startsWith(branchPrefix) && after !== zeroId)
    .map(({ ref }) => ref.slice(branchPrefix.length))
}

export async function listBranches(directory: string): Promise<string[]> {
  const refs = await listRefs(directory)
  return refs
    .filter((ref) => ref.startsWith(branchPrefix))
    .map((ref) => ref.slice(branchPrefix.length))
}

export async function hasBranch(directory: string, branch: string): Promise<boolean> {
  const ref = branchPrefix + branch
  return (await readRefs(directory, [ref])).get(ref) !== zeroId
}

/** Any refs, or only those visible to clients. */
type Which = 'any' | 'visible'

/** Whether a repository has a ref. */
export async function hasRefs(directory: string, which: Which): Promise<boolean> {
  // Mostly it does, which takes no listing.
  if (await hasBranch(directory, await readDefaultBranch(directory))) return true
  // Loose before packed, so that a ref that is being packed meanwhile is not missed.
  const isWanted = isAmong(which)
  if (await hasFile(directory, 'refs', isWanted)) return true
  return (await readPacked(directory, isWanted, 1)).size > 0
}

/** Reads all refs with their values, unsorted. */
export async function readAllRefs(directory: string): Promise<Map<string, string>> {
  const names = await looseNames(directory, 'refs')
  // Loose before packed, so that a ref that is being packed meanwhile is not missed.
  const loose = await Promise.all(
    names.map(async (name) => {
      const { name: target, content } = await readThrough(directory, name)
      return { name, target, id: content.trim() }
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

/** Lists the full names of all refs, unsorted. */
export async function listRefs(directory: string): Promise<string[]> {
  return [...(await readAllRefs(directory)).keys()]
}

/** Parses the content of a ref file; returns the target of a symbolic ref, and undefined for any other content. */
export function symbolicTarget(content: string | undefined): string | undefined {
  return content?.startsWith('ref:') ? content.slice('ref:'.length).trim() : undefined
}

async function looseNames(directory: string, folder: string): Promise<string[]> {
  const entries = await readdir(join(directory, folder), { withFileTypes: true }).catch(
    absentAs([]),
  )
  const names: string[] = []
  for (const entry of entries) {
    const name = `${folder}/${entry.name}`
    if (entry.isDirectory()) names.push(...(await looseNames(directory, name)))
    // Skips lock files, whose names are not ref names.
    else if (isRefName(name)) names.push(name)
  }
  return names
}

function isAmong(which: Which): (ref: string) => boolean {
  return (ref) => which === 'any' || !isHiddenRef(ref)
}

function isObjectId(text: string): boolean {
  return /^[0-9a-f]{40}$/.test(text)
}

function readLoose(directory: string, ref: string): Promise<string> {
  return readRefFile(join(directory, ref))
}

async function readSomePacked(
  directory: string,
  wanted: Set<string>,
): Promise<ReadonlyMap<string, string>> {
  const lookedUp =
    wanted.size <= maxLookUps
      ? await lookUpKnownPacked(join(directory, 'packed-refs'), wanted).catch(absentAs(noRefs))
      : undefined
  return lookedUp ?? readPacked(directory, (ref) => wanted.has(ref), wanted.size)
}

async function readPacked(
  directory: string,
  isWanted: (ref: string) => boolean,
  maxRefs: number,
): Promise<Map<string, string>> {
  const found = new Map<string, string>()
  // Breaking out of `readLines` leaves the file open, and Node throws when an open handle is garbage-collected.
  await using file = await open(join(directory, 'packed-refs')).catch(absentAs(undefined))
  if (!file) return found
  for await (const line of file.readLines()) {
    const [, id = '', ref = ''] = /^([0-9a-f]{40}) (.+)$/.exec(line) ?? []
    if (ref !== '' && isWanted(ref)) found.set(ref, id)
    if (found.size >= maxRefs) break
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
