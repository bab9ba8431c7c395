import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { forEachConcurrently } from '#base/for-each-concurrently.ts'
import { formatOf, type ObjectFormat } from '#base/object-id.ts'
import { Problem } from '#base/problem.ts'
import { listLooseRefs, readLooseRef } from './loose-refs.ts'
import { readPackedRefs, somePackedRef } from './packed-refs.ts'
import { hiddenVersionRef, isHiddenRef, zeroId } from './ref-name.ts'
import { fromRawName, type RawRefs, targetOf, toRawName } from './stored-ref.ts'

/** The old and new value of a ref, as hex object ids; all zeros mean that the ref does not exist. */
export type RefUpdate = { ref: string; before: string; after: string }

/** The object format of updates; undefined when all of them delete refs. */
export function objectFormatOf(updates: readonly RefUpdate[]): ObjectFormat | undefined {
  const made = updates.find(({ after }) => after !== zeroId)
  return made && formatOf(made.after)
}

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
const maxConcurrentReads = 32
// SYMREF_MAXDEPTH in Git's refs/refs-internal.h.
const maxReads = 5

/**
 * Reads all refs of a repository in the "files" format and its HEAD: gitrepository-layout(5). Undefined when there is
 * none.
 */
export async function readRawRefs(directory: string): Promise<RawRefs | undefined> {
  const head = await readLooseRef(directory, 'HEAD')
  return head === undefined ? undefined : (await readStored(directory)).set('HEAD', head)
}

/** Reads some refs and the targets of symbolic ones; undefined for a ref that does not exist. */
export async function readRawRefsNamed(
  directory: string,
  names: Iterable<string>,
): Promise<Map<string, string | undefined>> {
  const values = await readLoose(directory, names)
  const rest = new Set<string>()
  for (const [name, value] of values) if (value === undefined) rest.add(name)
  if (rest.size === 0) return values
  for (const [name, id] of await readPackedRefs(directory, rest)) values.set(name, id)
  return values
}

/** Reads the values of refs by full name; all zeros for those that do not exist. */
export async function readRefs(directory: string, refs: string[]): Promise<Map<string, string>> {
  const stored = await readRawRefsNamed(directory, refs.map(toRawName))
  return new Map(refs.map((ref) => [ref, endOf(stored, toRawName(ref)).id ?? zeroId]))
}

/** Reads refs by the names that clients know, under which versions of changes have hidden refs. */
export async function readNamedRefs(
  directory: string,
  names: readonly string[],
): Promise<Map<string, string>> {
  const refs = new Map(names.map((name) => [name, hiddenVersionRef(name) ?? name]))
  const values = await readRefs(directory, [...refs.values()])
  return new Map([...refs].map(([name, ref]) => [name, values.get(ref) ?? zeroId]))
}

/** Follows symbolic refs to the ref that a write to `ref` would change: gitglossary, "symref". */
export async function resolveSymbolicRef(directory: string, ref: string): Promise<string> {
  return (await resolveSymbolicRefs(directory, [ref])).get(ref) ?? ref
}

/** Resolves many refs at once. */
export async function resolveSymbolicRefs(
  directory: string,
  refs: string[],
): Promise<Map<string, string>> {
  const stored = await readLoose(directory, refs.map(toRawName))
  return new Map(refs.map((ref) => [ref, fromRawName(endOf(stored, toRawName(ref)).name)]))
}

/** Reads all refs with their values, unsorted. */
export async function readAllRefs(directory: string): Promise<Map<string, string>> {
  const stored = await readStored(directory)
  const values = new Map<string, string>()
  for (const name of stored.keys()) {
    const { id } = endOf(stored, name)
    if (id !== undefined) values.set(fromRawName(name), id)
  }
  return values
}

/** Lists the full names of all refs, unsorted. */
export async function listRefs(directory: string): Promise<string[]> {
  return [...(await readAllRefs(directory)).keys()]
}

/** Any refs, or only those visible to clients. */
type Which = 'any' | 'visible'

/** Whether a repository has a ref. */
export async function hasRefs(directory: string, which: Which): Promise<boolean> {
  // What cannot be read may have some.
  if (which === 'any' && hasReftable(directory)) return true
  // Mostly it does, which takes no listing.
  if (await hasBranch(directory, await readDefaultBranch(directory))) return true
  const isWanted = (name: string) => which === 'any' || !isHiddenRef(name)
  // Loose before packed, so that a ref that is being packed meanwhile is not missed.
  return (
    (await listLooseRefs(directory)).some(isWanted) || (await somePackedRef(directory, isWanted))
  )
}

/** All refs as they are stored, without HEAD. */
async function readStored(directory: string): Promise<RawRefs> {
  // Loose before packed, so that a ref that is being packed meanwhile is not missed.
  const loose: RawRefs = new Map()
  const names = await listLooseRefs(directory)
  await forEachConcurrently(maxConcurrentReads, names, async (name) => {
    const value = await readLooseRef(directory, name)
    if (value !== undefined) loose.set(name, value)
  })
  const all: RawRefs = new Map()
  await somePackedRef(directory, (name, id) => {
    all.set(name, id)
    return false
  })
  for (const [name, value] of loose) all.set(name, value)
  return all
}

/** The files of some refs, and of those that symbolic ones lead to. */
async function readLoose(
  directory: string,
  names: Iterable<string>,
): Promise<Map<string, string | undefined>> {
  const values = new Map<string, string | undefined>()
  await forEachConcurrently(maxConcurrentReads, new Set(names), async (first) => {
    let name: string | undefined = first
    for (let reads = 0; reads < maxReads && name !== undefined; reads++) {
      const value = await readLooseRef(directory, name)
      values.set(name, value)
      name = targetOf(value)
    }
  })
  return values
}

/** The ref that a ref leads to, and its value if it has one. */
function endOf(
  stored: ReadonlyMap<string, string | undefined>,
  ref: string,
): { name: string; id: string | undefined } {
  let name = ref
  for (let reads = 0; reads < maxReads; reads++) {
    const value = stored.get(name)
    const target = targetOf(value)
    if (target === undefined) return { name, id: value }
    name = target
  }
  return { name, id: undefined }
}

/** Throws `repository_damaged` for a directory that git would not recognize as a repository. */
export async function assertRepository(directory: string): Promise<void> {
  if ((await readLooseRef(directory, 'HEAD')) !== undefined) return
  throw new Problem(
    'repository_damaged',
    hasReftable(directory)
      ? 'This repository keeps its refs in the format "reftable", which this server does not read; its administrator can migrate it as `svc doctor` says.'
      : 'The files of this repository are damaged or missing; contact the administrator of the server.',
  )
}

/** Whether a repository keeps its refs in the format "reftable", so that its HEAD names no ref: gitformat-reftable(5). */
export function hasReftable(directory: string): boolean {
  return existsSync(join(directory, 'reftable'))
}

/** Returns the branch that HEAD names, even if it does not exist. */
export async function readDefaultBranch(directory: string): Promise<string> {
  const target = targetOf(await readLooseRef(directory, 'HEAD'))
  return target?.startsWith(branchPrefix) ? fromRawName(target.slice(branchPrefix.length)) : 'main'
}

/** Chooses a default branch among the existing branches; undefined when there are none. */
export function chooseDefaultBranch(branches: string[]): string | undefined {
  return usualAmong(branches) ?? branches.toSorted()[0]
}

/** The branch that becomes the default one when a push deletes that and has these; undefined when none stands out. */
export function successorAmong(pushed: string[]): string | undefined {
  return usualAmong(pushed) ?? (pushed.length === 1 ? pushed[0] : undefined)
}

/** What the default branch after a push depends on; only what is needed is read. */
type DefaultBranchFacts = {
  /** Whether the present default branch still exists. */
  isThere: () => Promise<boolean>
  /** Whether a user has chosen the present one. */
  isChosen: () => Promise<boolean>
  listBranches: () => Promise<string[]>
  /** The one for the case that no branch is left; by default the present one stays. */
  ofEmpty: () => Promise<string | undefined>
}

/** The default branch after a push: the present one, or the branch that takes its place. */
export async function defaultBranchAfter(
  present: string,
  moved: readonly RefUpdate[],
  facts: DefaultBranchFacts,
): Promise<string> {
  if (!moved.some(({ ref }) => ref.startsWith(branchPrefix))) return present
  const pushed = branchesOf(moved)
  if (await facts.isThere()) {
    const usual = usualInPlaceOf(present, pushed)
    return usual === undefined || (await facts.isChosen()) ? present : usual
  }
  const left = successorAmong(pushed) ?? chooseDefaultBranch(await facts.listBranches())
  return left ?? (await facts.ofEmpty()) ?? present
}

/** The branch of some that takes the place of a default branch that no user has chosen. */
function usualInPlaceOf(branch: string, pushed: string[]): string | undefined {
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
