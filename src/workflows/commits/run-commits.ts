import type { SourceHeader } from '#actions/runner-api/runner-api.ts'
import type { SourceRequest } from '#actions/workflow-engine/run-state.ts'
import type { Json } from '#base/json.ts'
import { isObjectId } from '#base/object-id.ts'
import { Problem } from '#base/problem.ts'
import { openObjects } from '#git/objects/object-reader.ts'
import type { Git } from '#git/process/git-process.ts'
import { hiddenVersionRef, isRefName, zeroId } from '#git/refs/ref-name.ts'
import { branchPrefix, readAllRefs, readNamedRefs, readRefs, tagPrefix } from '#git/refs/refs.ts'
import { packCommit, packHistory } from './commit-pack.ts'

type Source = {
  /** Sees the commit of the run, which may be in quarantine. */
  git: Git
  directory: string
  run: RunSource
  request: SourceRequest
  signal: AbortSignal
}

/** The commit of a run, the full name of its ref, and the object that its push gave the ref, if a push started it. */
type RunSource = Pick<SourceHeader, 'commit' | 'ref'> & { pushed: string | undefined }

/** A commit and its ref, whose object is an annotated tag or the commit. */
type Start = Pick<SourceHeader, 'commit' | 'ref'> & { object: string }

/**
 * Streams what a checkout needs: a SourceHeader as a line of JSON, then a pack. Throws `ref_not_found` when there is no
 * such branch, tag or commit.
 */
export async function streamCommits(source: Source): Promise<AsyncIterable<Buffer>> {
  const { git, directory, run, request, signal } = source
  const { depth, tags } = request
  const start = await (request.ref === undefined
    ? startOf(source, run)
    : resolve(source, request.ref))
  if (depth === 1 && !tags) {
    return withCommitHeader(start, await packCommit(git, { directory, ...start, signal }))
  }
  const prefixes = depth === 0 ? [branchPrefix, tagPrefix] : tags ? [tagPrefix] : []
  const refs = { ...(await refsBelow(directory, prefixes)), ...ownRef(start) }
  const wanted = new Set([start.commit, ...Object.values(refs)])
  const { shallow, pack } = await packHistory(git, { directory, wanted, depth, signal })
  return withHeader({ ...start, refs, shallow }, pack)
}

/** Puts the header of a single commit before its pack. */
export function withCommitHeader(start: Start, pack: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
  return withHeader({ ...start, refs: ownRef(start), shallow: [start.commit] }, pack)
}

/** The object that the push of a run gave its ref: an annotated tag or the commit. Undefined for a run without a push. */
export function pushedObject({
  payload,
}: {
  payload: { [key: string]: Json }
}): string | undefined {
  const { after } = payload
  return typeof after === 'string' ? after : undefined
}

async function* withHeader(
  { commit, ref, refs, shallow }: SourceHeader,
  pack: AsyncIterable<Buffer>,
) {
  yield Buffer.from(`${JSON.stringify({ commit, ref, refs, shallow })}\n`)
  yield* pack
}

function ownRef({ ref, object }: Start): Record<string, string> {
  return ref === '' ? {} : { [ref]: object }
}

/** The start of a run. A tag that was deleted or has moved since then leads to another commit, or is not annotated. */
async function startOf(source: Source, { commit, ref, pushed }: RunSource): Promise<Start> {
  if (!ref.startsWith(tagPrefix)) return { commit, ref, object: commit }
  const object = pushed ?? (await readRefs(source.directory, [ref])).get(ref)
  const isTag = object !== undefined && (await commitOf(source, object)) === commit
  return { commit, ref, object: isTag ? object : commit }
}

/** A branch comes before a tag of the same name, as for actions/checkout. */
async function resolve(source: Source, wanted: string): Promise<Start> {
  const names = [wanted, branchPrefix + wanted, tagPrefix + wanted].filter(
    (name) =>
      isRefName(name) &&
      (isBelow(name, [branchPrefix, tagPrefix]) || hiddenVersionRef(name) !== undefined),
  )
  const values = await readNamedRefs(source.directory, names)
  const ref = names.find((name) => (values.get(name) ?? zeroId) !== zeroId) ?? ''
  const id = ref === '' && isObjectId(wanted.toLowerCase()) ? wanted.toLowerCase() : values.get(ref)
  const commit = await commitOf(source, id)
  if (commit !== undefined) return { commit, ref, object: ref === '' ? commit : (id ?? commit) }
  const detail = `There is no branch, tag or commit ${wanted} in the repository; an id needs all of its digits.`
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
