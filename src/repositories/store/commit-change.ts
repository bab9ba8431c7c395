import type { Db } from '#database/schema.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { branchPrefix, defaultBranchAfter, type RefUpdate } from '#git/refs/refs.ts'
import { type Decision, decideUpdates, type RefFacts } from './decide-updates.ts'
import { addPacks, type StoredPack } from './pack-store.ts'
import type { RefChanges } from './packed-refs-file.ts'
import {
  deleteRefs,
  type LockedRepository,
  lockRepository,
  raiseVersion,
  readConcerned,
  readRefsUnder,
  saveRefs,
} from './ref-store.ts'
import type { RepositoryTransaction } from './repository-transactions.ts'
import { goneFromStore } from './store-error.ts'

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
  /**
   * Called in the transaction once the repository is locked. Returns the time of the push that is recorded with the
   * change. A Problem that it throws prevents the change.
   */
  begin: (tx: Db, repository: LockedRepository) => Promise<{ pushedAt: number }>
  /** The prune epoch of the directory in which its objects were checked. */
  pruneEpoch: number
  /** The default branch for the case that no branch is left; by default it stays. */
  firstHead?: string | undefined
  /** Called in the transaction before anything is written. A Problem that it throws prevents the change. */
  check?: (repository: LockedRepository, moved: RefUpdate[]) => void
  /** Returns hidden refs to create with the change, as names and values. */
  retain: (moved: RefUpdate[]) => Map<string, string>
  /** Records the change in the same transaction, once everything else is written. */
  record: (tx: Db, change: CommittedChange, decisions: Decision[]) => Promise<void>
}

/** A change of refs that has happened. */
export type CommittedChange = {
  /** The name of the repository at that moment. */
  name: string
  version: number
  /** The updates that changed a ref, with the values that they replaced. */
  moved: RefUpdate[]
  /** The former and the new default branch, when it has changed. */
  head: { former: string; branch: string } | undefined
  /** All refs that were written and deleted, also hidden ones. */
  refs: RefChanges
  /** The checksums of the packs that were added. */
  packs: string[]
}

export type ChangeOutcome = {
  decisions: Decision[]
  /** Whether all objects of the change are in the store: it may have had none, or be refused. */
  areObjectsStored: boolean
  /** Undefined when nothing was changed. */
  committed: CommittedChange | undefined
}

/** Thrown when objects were pruned that the change may need: they have to be checked again. */
export class PrunedError extends Error {
  override readonly name = 'PrunedError'
}

const maxAttempts = 5
// Serialization failure, deadlock, and a push id that another node has made: PostgreSQL's manual, appendix A.
const passingFaults = new Set<unknown>(['40001', '40P01', 'pushes_pkey'])

/**
 * Decides and makes a change in one transaction. The lock of the repository's row orders it among all changes of the
 * repository on all nodes. It is repeated when other transactions interfered. Throws `repository_not_found`, a
 * PrunedError, and what `check` throws.
 */
export async function commitChange(
  transaction: RepositoryTransaction,
  change: Change,
): Promise<ChangeOutcome> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await tryChange(transaction, change)
    } catch (error) {
      const { code, constraint } = error as { code?: unknown; constraint?: unknown }
      const isPassing = passingFaults.has(code) || passingFaults.has(constraint)
      if (!isPassing || attempt === maxAttempts) throw error
    }
  }
}

function tryChange(transaction: RepositoryTransaction, change: Change): Promise<ChangeOutcome> {
  return transaction(change.repositoryId, async (tx) => {
    const repository = await lockRepository(tx, change.repositoryId)
    if (!repository) throw goneFromStore()
    if (repository.pruneEpoch !== change.pruneEpoch) throw new PrunedError()
    const { pushedAt } = await change.begin(tx, repository)
    const { repositoryId, updates, objects } = change
    const other = branchPrefix + repository.head
    const values = await readConcerned(tx, repositoryId, { updates, other })
    const decisions = decideUpdates(updates, { values, objects }, change.isAtomic)
    const accepted = decisions.filter(({ refusal }) => refusal === undefined)
    const moved = movedBy(accepted, values)
    change.check?.(repository, moved)
    const hidden = change.retain(moved)
    const isChange =
      moved.length > 0 || hidden.size > 0 || (accepted.length > 0 && change.packs.length > 0)
    if (!isChange) {
      return { decisions, areObjectsStored: change.packs.length === 0, committed: undefined }
    }
    const decided = { repository, values, moved, hidden, decisions, pushedAt }
    const committed = await write(tx, change, decided)
    return { decisions, areObjectsStored: true, committed }
  })
}

type Decided = {
  repository: LockedRepository
  /** The values of refs before the change, with that of the default branch. */
  values: ReadonlyMap<string, string>
  moved: RefUpdate[]
  /** Hidden refs to create, by name. */
  hidden: ReadonlyMap<string, string>
  decisions: Decision[]
  pushedAt: number
}

async function write(
  tx: Db,
  { repositoryId, packs, peeled, firstHead, record }: Change,
  { repository, values, moved, hidden, decisions, pushedAt }: Decided,
): Promise<CommittedChange> {
  const written = moved.filter(({ after }) => after !== zeroId)
  const rows = [...written.map(({ ref, after }) => [ref, after] as const), ...hidden].map(
    ([name, objectId]) => ({
      repositoryId,
      name,
      objectId,
      peeledId: peeled.get(objectId) ?? null,
    }),
  )
  const deleted = moved.filter(({ after }) => after === zeroId).map(({ ref }) => ref)
  await deleteRefs(tx, repositoryId, deleted)
  await saveRefs(tx, rows)
  const head = await defaultBranchAfter(repository.head, moved, {
    isThere: async () => isThereAfter(branchPrefix + repository.head, moved, values),
    isChosen: async () => repository.headChosen !== 0,
    async listBranches() {
      const refs = await readRefsUnder(tx, repositoryId, branchPrefix)
      return [...refs.keys()].map((ref) => ref.slice(branchPrefix.length))
    },
    ofEmpty: async () => firstHead,
  })
  const version = await raiseVersion(tx, repositoryId, {
    ...repository,
    head,
    pushedAt: moved.length > 0 ? pushedAt : undefined,
  })
  await addPacks(tx, repositoryId, packs, version)
  const change = {
    name: repository.name,
    version,
    moved,
    head: head === repository.head ? undefined : { former: repository.head, branch: head },
    refs: new Map([
      ...deleted.map((ref) => [ref, undefined] as const),
      ...rows.map((row) => [row.name, row] as const),
    ]),
    packs: packs.map(({ hash }) => hash),
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

function isThereAfter(ref: string, moved: RefUpdate[], values: ReadonlyMap<string, string>) {
  const last = moved.findLast((update) => update.ref === ref)
  return last ? last.after !== zeroId : values.has(ref)
}
