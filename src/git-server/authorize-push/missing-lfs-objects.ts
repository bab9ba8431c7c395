import { printable } from '#base/format.ts'
import { Problem } from '#base/problem.ts'
import { abortAfter } from '#base/timeouts.ts'
import {
  lfsPointersAmong,
  listLfsPointers,
  type PointerFile,
  readLfsServers,
} from '#git/objects/lfs-pointers.ts'
import { listNewFiles } from '#git/objects/new-files.ts'
import { findObjects } from '#git/objects/object-stream.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { branchPrefix, readDefaultBranch } from '#git/refs/refs.ts'
import type { LfsObjects } from '#repositories/lfs-objects.ts'
import type { QuarantinedPush } from '../leak-guard/leak-guard.ts'

type Dependencies = { lfsObjects: Pick<LfsObjects, 'renewedSizesOf'> }

const maxNamed = 20
// Per push.
const maxConfigurations = 10
const batchSize = 1000
const maxSeconds = 600

/**
 * Throws `lfs_objects_missing` when new files of a push are pointers to Git LFS objects that the repository does not have
 * with this size. Files that it had before may be pushed again. So may all where `.lfsconfig` names another LFS server.
 */
export async function refuseMissingLfsObjects(
  { lfsObjects }: Dependencies,
  push: QuarantinedPush,
): Promise<void> {
  const missing: PointerFile[] = []
  using limit = abortAfter(maxSeconds * 1000, tooLong())
  for await (const batch of batchesOf(pointersIn(push, limit.signal))) {
    missing.push(...(await missingAmong(batch, lfsObjects, push)))
    if (missing.length > maxNamed) break
  }
  if (missing.length === 0 || (await hasOtherServer(push))) return
  throw new Problem('lfs_objects_missing', await describe(missing, push))
}

function pointersIn({ repository, objects, quarantinedGit }: QuarantinedPush, signal: AbortSignal) {
  if (objects) return lfsPointersAmong(objects)
  return listLfsPointers(quarantinedGit, repository.path, { options: {}, signal })
}

async function* batchesOf(
  pointers: Iterable<PointerFile> | AsyncIterable<PointerFile>,
): AsyncGenerator<PointerFile[], void> {
  let batch: PointerFile[] = []
  for await (const pointer of pointers) {
    batch.push(pointer)
    if (batch.length < batchSize) continue
    yield batch
    batch = []
  }
  if (batch.length > 0) yield batch
}

async function missingAmong(
  pointers: readonly PointerFile[],
  lfsObjects: Pick<LfsObjects, 'renewedSizesOf'>,
  { repository, git }: QuarantinedPush,
): Promise<PointerFile[]> {
  const oids = [...new Set(pointers.map(({ oid }) => oid))]
  const sizes = await lfsObjects.renewedSizesOf(repository.id, oids)
  // No client downloads an object by a pointer with another size.
  const lacking = pointers.filter(({ oid, size }) => sizes.get(oid) !== size)
  if (lacking.length === 0) return []
  // A pack may repeat objects, as those that deltas build on.
  const known = await findObjects(
    git,
    repository.path,
    lacking.map(({ id }) => id),
  )
  return lacking.filter(({ id }) => !known.has(id))
}

/** Whether a pushed tip has a `.lfsconfig` that sends clients to another LFS server than the repository's. */
async function hasOtherServer(push: QuarantinedPush): Promise<boolean> {
  const { name, path } = push.repository
  const main = branchPrefix + (await readDefaultBranch(path))
  // The file is most likely in the default branch.
  const updates = push.updates.toSorted((a, b) => Number(b.ref === main) - Number(a.ref === main))
  const own = [`/repos/${name}.git/info/lfs`, `/repos/${name}/info/lfs`]
  const isOwn = (url: string) => own.some((end) => url.replace(/\/$/, '').endsWith(end))
  for (const id of tipsOf({ updates }).slice(0, maxConfigurations)) {
    const servers = await readLfsServers(push.scopedGit, path, id)
    if (![...servers.values()].every(isOwn)) return true
  }
  return false
}

function tipsOf({ updates }: Pick<QuarantinedPush, 'updates'>): string[] {
  return [...new Set(updates.map(({ after }) => after))].filter((id) => id !== zeroId)
}

function tooLong(): Problem {
  const detail = `Looking for Git LFS pointers in this push took longer than ${maxSeconds} s; push fewer commits at a time.`
  return new Problem('git_limit_exceeded', detail)
}

/** Names the missing objects for the client's terminal, and says how to push them. */
async function describe(missing: readonly PointerFile[], push: QuarantinedPush): Promise<string> {
  const shown = missing.slice(0, maxNamed)
  const ids = new Set(shown.map(({ id }) => id))
  const commits = await listNewFiles(push.scopedGit, push.repository.path, tipsOf(push), ids)
  const paths = new Map(
    commits.flatMap(({ files }) => files.map(({ after, path }) => [after, path])),
  )
  const toLine = ({ id, oid }: PointerFile) => {
    const path = paths.get(id)
    return `  ${oid}${path === undefined ? '' : ` (${printable(path)})`}`
  }
  return [
    'This push has pointers to Git LFS objects that the repository does not have, or has with another size. Nothing was changed.',
    '',
    ...shown.map(toLine),
    ...(missing.length > maxNamed ? ['  and more.'] : []),
    '',
    'Push them first, from a clone that has them, and then push again:',
    '  git lfs push --all <remote>',
  ].join('\n')
}
