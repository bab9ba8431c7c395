import { LRUCache } from 'lru-cache'
import { createSingleFlight } from '#base/concurrency/single-flight.ts'
import { formatOf, idBytes, type ObjectFormat } from '#base/object-id.ts'
import { orAborted } from '#base/timeouts.ts'
import { type ClonePacks, readClonePacks } from '#git/clone-packs/clone-packs.ts'
import { type PackedObjects, packObjects } from '#git/clone-packs/pack-objects.ts'
import { packHeader, parentsIn } from '#git/objects/pack.ts'
import { type Git, GitError } from '#git/process/git-process.ts'
import type { ResponseSink } from '#git/protocol/pipe-process.ts'
import type { FetchSource } from '../../requests/operations.ts'
import {
  checksumOf,
  entriesOf,
  type OpenPacks,
  openPacks,
  type Part,
  storedChecksum,
} from './pack-stream.ts'
import { sendPack } from './side-band.ts'

/** A request for all objects that some reach. */
export type CloneRequest = {
  directory: string
  wants: ReadonlySet<string>
  /** Identifies the response; undefined when it is not cacheable. */
  key: string | undefined
  /** Waits for a permit for git processes. */
  acquire: () => Promise<Disposable>
  signal: AbortSignal
}

/** Stored packs, followed by newer objects. The checksum is that of the pack that they are together. */
type Plan = { packs: ClonePacks['packs']; newer: PackedObjects; checksum?: Promise<Buffer> }

/** A plan, if there is one, with the record that it depends on. */
type Planned = { recorded: readonly ClonePacks[]; plan: Plan | undefined }

/** Recorded packs, with the ids in which their tips and the wanted objects differ. */
type Candidate = ClonePacks & { lacking: string[]; newer: string[] }

type Dependencies = { git: Git; onFetch: (source: FetchSource) => void }

// Git itself is as fast for small ones, unless no git process is needed.
const minBytes = 1024 * 1024
// A clone that lacks more of the recorded tips is one of some branches.
const maxLacking = 16
const newerMaxBytes = 8 * 1024 * 1024
const plansMaxBytes = 2 * newerMaxBytes
const planBytes = 1024
const empty = Buffer.alloc(0)
const nothing: PackedObjects = { objects: 0, pack: empty, entries: empty }
const parsedMaxBytes = 64 * 1024

/**
 * Sends clones from the packs of a repository as they are, where `recordClonePacks` has recorded that they hold exactly
 * what is wanted, or that and newer objects, which git packs: docs/design/stored-clones.md.
 *
 * Measured: a clone of 318 MB takes a tenth of the CPU time. Deleting this folder takes `git/clone-packs/`, its calls in
 * `maintain` and those of `send`; the response cache then serves these clones.
 */
export function createStoredClones({ git, onFetch }: Dependencies) {
  const planned = new LRUCache<string, Planned>({
    maxSize: plansMaxBytes,
    sizeCalculation: ({ plan }) => planBytes + (plan?.newer.entries.length ?? 0),
  })
  const share = createSingleFlight<Planned>()

  /** Requests for the same at the same time share one plan. */
  async function planOf(request: CloneRequest): Promise<Plan | undefined> {
    const { directory, key, signal } = request
    for (;;) {
      const recorded = await readClonePacks(directory)
      if (recorded.length === 0) return undefined
      if (key === undefined) return await makePlan(git, request, recorded)
      const known = planned.get(key)
      if (known?.recorded === recorded) return known.plan
      let isOwn = false
      const making = share(key, async () => {
        isOwn = true
        const made = { recorded, plan: await makePlan(git, request, recorded) }
        planned.set(key, made)
        return made
      })
      if (isOwn) return (await making).plan
      // The other request may fail for reasons of its own.
      const found = await orAborted(making, signal).catch(() => signal.throwIfAborted())
      if (found) return found.plan
    }
  }

  return {
    /** Sends the response to a request; false, before anything is sent, when it takes git. */
    async send(request: CloneRequest, sink: ResponseSink): Promise<boolean> {
      const plan = await planOf(request)
      await using opened = plan && (await openPacks(request.directory, plan.packs))
      if (!opened) return false
      onFetch('packs')
      const [wanted = ''] = request.wants
      const format = formatOf(wanted)
      plan.checksum ??= computeChecksum(request.directory, plan, format)
      plan.checksum.catch(() => {
        delete plan.checksum
      })
      const checksum = { bytes: idBytes(format), made: plan.checksum }
      await sendPack(partsOf(plan, opened, format), checksum, sink)
      return true
    },
  }
}

async function makePlan(
  git: Git,
  { directory, wants, acquire }: CloneRequest,
  recorded: readonly ClonePacks[],
): Promise<Plan | undefined> {
  const candidates = recorded.map((packs) => compare(packs, wants))
  const equal = candidates.find(({ lacking, newer }) => lacking.length + newer.length === 0)
  if (equal) return { packs: equal.packs, newer: nothing }
  const promising = candidates.filter(isPromising)
  if (promising.length === 0) return undefined
  using _permit = await acquire()
  for (const candidate of promising) {
    const newer = await packNewer(git, directory, candidate, wants)
    if (newer) return { packs: candidate.packs, newer }
  }
  return undefined
}

function compare(recorded: ClonePacks, wants: ReadonlySet<string>): Candidate {
  const { tips } = recorded
  return { ...recorded, lacking: [...tips.difference(wants)], newer: [...wants.difference(tips)] }
}

function isPromising({ packs, lacking }: Candidate): boolean {
  return (
    lacking.length <= maxLacking && packs.reduce((sum, { bytes }) => sum + bytes, 0) >= minBytes
  )
}

/** The wanted objects that are not in the packs; undefined when these are many, or have objects that are not wanted. */
async function packNewer(
  git: Git,
  directory: string,
  { tips, packs, lacking, newer }: Candidate,
  wants: ReadonlySet<string>,
): Promise<PackedObjects | undefined> {
  const missing = { wants: newer, excluded: tips, keptPacks: packs, maxBytes: newerMaxBytes }
  try {
    const added = newer.length === 0 ? nothing : await packObjects(git, directory, missing)
    if (!added || isBasedOn(added, lacking)) return added
    const beyond = { wants: lacking, excluded: wants, keptPacks: [], maxBytes: 0 }
    return (await packObjects(git, directory, beyond)) && added
  } catch (error) {
    // The same command fails for the client, with a reason.
    if (error instanceof GitError) return undefined
    throw error
  }
}

/** Whether the parents of newer commits prove that commits are reached. Mostly, this is so after pushes to a branch. */
function isBasedOn({ pack }: PackedObjects, commits: readonly string[]): boolean {
  if (commits.length === 0) return true
  const parents =
    pack.length <= parsedMaxBytes ? parentsIn(pack, formatOf(commits[0] ?? '')) : 'unknown'
  if (!(parents instanceof Map)) return false
  const reached = new Set([...parents.values()].flat())
  return commits.every((id) => reached.has(id))
}

function partsOf({ newer }: Plan, { packs }: OpenPacks, format: ObjectFormat): Part[] {
  const objects = packs.reduce((sum, pack) => sum + pack.objects, newer.objects)
  return [packHeader(objects), ...packs.map((pack) => entriesOf(pack, format)), newer.entries]
}

async function computeChecksum(
  directory: string,
  plan: Plan,
  format: ObjectFormat,
): Promise<Buffer> {
  await using opened = await openPacks(directory, plan.packs)
  if (!opened) throw new Error('A pack was removed while it was sent.')
  const parts = partsOf(plan, opened, format)
  const [first, ...others] = opened.packs
  const isAlone = first && others.length === 0 && plan.newer.objects === 0
  const stored = isAlone
    ? await storedChecksum(first, packHeader(first.objects), format)
    : undefined
  return stored ?? (await checksumOf(parts, format))
}
