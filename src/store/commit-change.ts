import type { Database } from '../database/database.ts'
import type { Db } from '../database/schema.ts'
import { zeroId } from '../git/refs/ref-name.ts'
import { branchPrefix, chooseDefaultBranch, type RefUpdate } from '../git/refs/refs.ts'
import { type Decision, decideUpdates, type RefFacts } from './decide-updates.ts'
import { addPacks, type StoredPack } from './pack-store.ts'
import {
  deleteRefs,
  hasRef,
  type LockedRepository,
  lockRepository,
  raiseVersion,
  readConcerned,
  readRefsUnder,
  writeRefs,
} from './ref-store.ts'
import { repositoryGone } from './store-error.ts'

/** A change of refs that was authorized, with everything that it needs to be durable. */
export type Change = {
  repositoryId: string
  updates: RefUpdate[]
  /** Whether all updates are refused when one is. */
  isAtomic: boolean
  objects: RefFacts['objects']
  /** By the id of an annotated tag: the object that it points to. */
  peeled: ReadonlyMap<string, string>
  /** The packs with the objects that the repository does not have. */
  packs: StoredPack[]
  /** Called in the transaction once the repository is locked. */
  begin: (tx: Db) => Promise<void>
  /** Called in the transaction before anything is written. A Problem that it throws prevents the change. */
  check?: (repository: LockedRepository, moved: RefUpdate[]) => void
  /** Returns hidden refs to create with the change, as names and values. */
  retain: (moved: RefUpdate[]) => Map<string, string>
  /** Records the change in the same transaction, once everything else is written. */
  record: (tx: Db, change: CommittedChange, decisions: Decision[]) => Promise<void>
}

/** A change of refs that has happened. */
export type CommittedChange = {
  version: number
  /** The updates that changed a ref, with the values that they replaced. */
  moved: RefUpdate[]
  /** The former and the new default branch, when it has changed. */
  head: { former: string; branch: string } | undefined
}

export type ChangeOutcome = {
  decisions: Decision[]
  /** Undefined when nothing was changed. */
  committed: CommittedChange | undefined
}

/**
 * Decides and makes a change in one transaction. The lock of the repository's row orders it among all changes of the
 * repository on all nodes. Throws `repository_not_found`, and what `check` throws.
 */
export function commitChange(db: Database, change: Change): Promise<ChangeOutcome> {
  return db.transaction().execute(async (tx) => {
    const repository = await lockRepository(tx, change.repositoryId)
    if (!repository) throw repositoryGone()
    await change.begin(tx)
    const values = await readConcerned(tx, change.repositoryId, change.updates)
    const { objects } = change
    const decisions = decideUpdates(change.updates, { values, objects }, change.isAtomic)
    const accepted = decisions.filter(({ refusal }) => refusal === undefined)
    const moved = movedBy(accepted, values)
    change.check?.(repository, moved)
    const isChange = moved.length > 0 || (accepted.length > 0 && change.packs.length > 0)
    if (!isChange) return { decisions, committed: undefined }
    return { decisions, committed: await write(tx, change, { repository, moved, decisions }) }
  })
}

type Decided = { repository: LockedRepository; moved: RefUpdate[]; decisions: Decision[] }

async function write(
  tx: Db,
  { repositoryId, packs, peeled, retain, record }: Change,
  { repository, moved, decisions }: Decided,
): Promise<CommittedChange> {
  const written = moved.filter(({ after }) => after !== zeroId)
  const rows = [...written.map(({ ref, after }) => [ref, after] as const), ...retain(moved)].map(
    ([name, objectId]) => ({
      repositoryId,
      name,
      objectId,
      peeledId: peeled.get(objectId) ?? null,
    }),
  )
  const deleted = moved.filter(({ after }) => after === zeroId).map(({ ref }) => ref)
  await deleteRefs(tx, repositoryId, deleted)
  await writeRefs(tx, rows)
  const head = await headAfter(tx, repositoryId, repository.head, moved)
  const version = await raiseVersion(tx, repositoryId, { version: repository.version, head })
  if (!(await addPacks(tx, repositoryId, packs, version))) throw uploadTooOld()
  const change = {
    version,
    moved,
    head: head === repository.head ? undefined : { former: repository.head, branch: head },
  }
  await record(tx, change, decisions)
  return change
}

/** The updates that change a ref. A deletion replaces the present value, also when the client expected another one. */
function movedBy(accepted: Decision[], values: ReadonlyMap<string, string>): RefUpdate[] {
  return accepted
    .map(({ update }) => {
      const isDeletion = update.after === zeroId
      return isDeletion ? { ...update, before: values.get(update.ref) ?? zeroId } : update
    })
    .filter(({ before, after }) => before !== after)
}

/** The default branch after a change: another one when there are branches, and this one is not among them. */
async function headAfter(
  tx: Db,
  repositoryId: string,
  head: string,
  moved: RefUpdate[],
): Promise<string> {
  if (!moved.some(({ ref }) => ref.startsWith(branchPrefix))) return head
  if (await hasRef(tx, repositoryId, branchPrefix + head)) return head
  const refs = await readRefsUnder(tx, repositoryId, branchPrefix)
  return chooseDefaultBranch([...refs.keys()].map((ref) => ref.slice(branchPrefix.length))) ?? head
}

function uploadTooOld(): Error {
  return new Error('The upload of a pack took so long that it was taken back.')
}
