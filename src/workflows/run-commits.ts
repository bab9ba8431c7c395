import { Problem } from '../base/problem.ts'
import { openObjects } from '../git/objects/object-reader.ts'
import type { Git } from '../git/process/git-process.ts'
import { isRefName, zeroId } from '../git/refs/ref-name.ts'
import { branchPrefix, readAllRefs, readRefs, tagPrefix } from '../git/refs/refs.ts'
import type { SourceHeader } from '../runner-api/runner-api.ts'
import type { SourceRequest } from '../workflow-engine/run-state.ts'
import { packCommit, packHistory } from './commit-pack.ts'

type Source = {
  /** Sees the commit of the run, which may be in quarantine. */
  git: Git
  directory: string
  /** The commit of the run, and the full name of its ref. */
  run: Commit
  request: SourceRequest
  signal: AbortSignal
}

type Commit = Pick<SourceHeader, 'commit' | 'ref'>

/**
 * Streams what a checkout needs: a SourceHeader as a line of JSON, then a pack. Throws `ref_not_found` when there is no
 * such branch, tag or commit.
 */
export async function streamCommits(source: Source): Promise<AsyncIterable<Buffer>> {
  const { git, directory, run, request, signal } = source
  const { depth, tags } = request
  const start = request.ref === undefined ? run : await resolve(source, request.ref)
  if (depth === 1 && !tags) {
    const { commit } = start
    return withCommitHeader(start, await packCommit(git, { directory, commit, signal }))
  }
  const prefixes = depth === 0 ? [branchPrefix, tagPrefix] : tags ? [tagPrefix] : []
  const { [start.ref]: own, ...others } = await refsBelow(directory, prefixes)
  // A tag that has moved since the run was created is not that of the run.
  const isSame = own !== undefined && (await commitOf(source, own)) === start.commit
  const refs = isSame ? { ...others, [start.ref]: own } : others
  const wanted = new Set([start.commit, ...Object.values(refs)])
  const { shallow, pack } = await packHistory(git, { directory, wanted, depth, signal })
  return withHeader({ ...start, refs, shallow }, pack)
}

/** Puts the header of a single commit before its pack. */
export function withCommitHeader(
  start: Commit,
  pack: AsyncIterable<Buffer>,
): AsyncIterable<Buffer> {
  return withHeader({ ...start, refs: {}, shallow: [start.commit] }, pack)
}

async function* withHeader(header: SourceHeader, pack: AsyncIterable<Buffer>) {
  yield Buffer.from(`${JSON.stringify(header)}\n`)
  yield* pack
}

/** A branch comes before a tag of the same name, as for actions/checkout. */
async function resolve(source: Source, wanted: string): Promise<Commit> {
  const names = [wanted, branchPrefix + wanted, tagPrefix + wanted].filter(
    (name) => isRefName(name) && isBelow(name, [branchPrefix, tagPrefix]),
  )
  const values = await readRefs(source.directory, names)
  const ref = names.find((name) => (values.get(name) ?? zeroId) !== zeroId) ?? ''
  const id = ref === '' && /^[0-9a-f]{40}$/i.test(wanted) ? wanted.toLowerCase() : values.get(ref)
  const commit = await commitOf(source, id)
  if (commit !== undefined) return { commit, ref }
  const detail = `There is no branch, tag or commit ${wanted} in the repository; an id needs all of its 40 digits.`
  throw new Problem('ref_not_found', detail)
}

/** The id of the commit that an object is, or that a tag leads to. */
async function commitOf(
  { git, directory }: Pick<Source, 'git' | 'directory'>,
  id: string | undefined,
): Promise<string | undefined> {
  if (id === undefined) return undefined
  await using objects = await openObjects(git, directory)
  return (await objects.find(`${id}^{commit}`))?.id
}

async function refsBelow(directory: string, prefixes: string[]): Promise<Record<string, string>> {
  if (prefixes.length === 0) return {}
  const all = await readAllRefs(directory)
  return Object.fromEntries([...all].filter(([name]) => isBelow(name, prefixes)).sort())
}

function isBelow(name: string, prefixes: string[]): boolean {
  return prefixes.some((prefix) => name.startsWith(prefix))
}
