import type { Role } from '#access/roles.ts'
import type { Clock } from '#base/clock.ts'
import type { ObjectFormat } from '#base/object-id.ts'
import type { Database } from '#database/database.ts'
import type { ImportRow, LiveState, RepositoryRow } from '#database/schema.ts'
import { assertRepository, hasRefs, readDefaultBranch } from '#git/refs/refs.ts'
import { findImport } from './import-store.ts'
import { countMissingLfsObjects, sumLfsObjects } from './lfs-object-store.ts'
import { findMaintenanceState, type MaintenanceState } from './maintenance-state-store.ts'
import { protectedBranchesIn } from './protection-rules.ts'
import { listProtections } from './protection-store.ts'
import { repositoryGone } from './repository-errors.ts'
import { findObjectFormat, stateOf } from './repository-store.ts'
import type { Store } from './store/store.ts'

/** The fields of a repository from which it is described. */
export type RepositoryFields = Readonly<
  Pick<
    RepositoryRow,
    | 'id'
    | 'name'
    | 'namespaceId'
    | 'createdAt'
    | 'ownerTokenId'
    | 'ownerUsername'
    | 'description'
    | 'pushedAt'
    | 'leakGuard'
    | 'runTokens'
    | 'visibility'
    | 'objectFormat'
  >
> & {
  readonly path: string
  readonly state: LiveState | 'failed'
  /** How many objects of Git LFS its import left behind; absent when it has just been created. */
  readonly missingLfsObjects?: number | undefined
  /** The role of the caller; absent when it has just created or restored the repository. */
  readonly role?: Role | undefined
  /** Whether only its visibility lets the caller in, who is not shown where its files are, and the token of its owner. */
  readonly isVisitor?: boolean | undefined
}

/** What a repository is when it has just been created, or its import has begun. */
export function newRepository<
  Place extends {
    id: string
    name: string
    namespaceId: string | null
    createdAt: number
    objectFormat: ObjectFormat | null
  },
>({ id: ownerTokenId, username: ownerUsername }: { id: string; username: string }, place: Place) {
  const settings = { leakGuard: 'on', runTokens: 'read', visibility: 'private' } as const
  const about = { description: '', pushedAt: null }
  return { ...place, ...about, ...settings, ownerTokenId, ownerUsername }
}

/** A repository in a list. */
export type ListedRepository = Omit<RepositoryFields, 'leakGuard' | 'namespaceId' | 'isVisitor'> & {
  leakGuard: boolean
  protectedBranches: string[]
}

/** A repository as the API describes it. */
export type RepositoryDescription = ListedRepository & {
  /** The role of the caller; `admin` for the owner and for admins. */
  role: Role
  defaultBranch: string
  /** Whether it has no refs. */
  empty: boolean
  sizeBytes: number
  /** `ssh` is null when SSH is off. */
  cloneUrls: { http: string; ssh: string | null }
  maintenance: MaintenanceState
  /** How many objects of Git LFS its files name that its import left behind. */
  missingLfsObjects: number
  /** Its running or failed import. */
  import: ImportDescription | null
}

type ImportDescription = {
  source: string
  phase: string
  progress: number
  fault: { code: string; detail: string } | null
}

type Dependencies = {
  db: Database
  store: Pick<Store, 'open' | 'packBytes'>
  clock: Clock
  baseUrl: () => string
  sshUrl: () => string | null
}

/** Describes a repository. Throws `repository_not_found` when it has been deleted, and `repository_damaged`. */
export async function describeRepository(
  { db, store, clock, baseUrl, sshUrl }: Dependencies,
  repository: RepositoryFields,
): Promise<RepositoryDescription> {
  // Only owners and admins create and restore repositories.
  const { id, name, role = 'admin' } = repository
  let { path, missingLfsObjects = 0, objectFormat } = repository
  const ssh = sshUrl()
  const cloneUrls = { http: `${baseUrl()}/repos/${name}.git`, ssh: ssh && `${ssh}/${name}.git` }
  if (repository.state !== 'ready') {
    const row = await findImport(db, id)
    if (row)
      return {
        ...toListed(repository, []),
        role,
        ...emptyDetails,
        cloneUrls,
        import: toImport(row),
      }
    // It has become ready since it was opened, or was deleted.
    if ((await stateOf(db, id)) !== 'ready') throw repositoryGone({ name })
    path = await store.open(id)
    missingLfsObjects = await countMissingLfsObjects(db, id)
    objectFormat = await findObjectFormat(db, id)
  }
  await assertRepository(path)
  const [protections, defaultBranch, isUsed, packBytes, lfsBytes, maintenance] = await Promise.all([
    listProtections(db, id),
    readDefaultBranch(path),
    hasRefs(path, 'visible'),
    store.packBytes(id, db),
    sumLfsObjects(db, id),
    findMaintenanceState(db, id, clock.now()),
  ])
  return {
    ...toListed({ ...repository, state: 'ready', objectFormat }, protectedBranchesIn(protections)),
    role,
    defaultBranch,
    empty: !isUsed,
    sizeBytes: packBytes + lfsBytes,
    cloneUrls,
    maintenance,
    missingLfsObjects,
    import: null,
  }
}

/** Gives a description the clone URL of the origin that its reader called, if it is known. */
export function atOrigin(
  description: RepositoryDescription,
  origin: string | undefined,
): RepositoryDescription {
  if (origin === undefined) return description
  const http = `${origin}/repos/${description.name}.git`
  return { ...description, cloneUrls: { ...description.cloneUrls, http } }
}

export function toListed(
  repository: RepositoryFields,
  protectedBranches: string[],
): ListedRepository {
  const { id, name, description, createdAt, pushedAt, state, isVisitor } = repository
  const { ownerUsername, runTokens, visibility, objectFormat } = repository
  const [path, ownerTokenId] = isVisitor ? ['', ''] : [repository.path, repository.ownerTokenId]
  const owner = { ownerTokenId, ownerUsername }
  const leakGuard = repository.leakGuard === 'on'
  const fields = { id, name, description, createdAt, pushedAt, path, ...owner, state }
  return { ...fields, visibility, leakGuard, runTokens, objectFormat, protectedBranches }
}

const emptyDetails = {
  defaultBranch: 'main',
  empty: true,
  sizeBytes: 0,
  maintenance: { state: 'idle', finishedAt: null },
  missingLfsObjects: 0,
} as const

function toImport({
  source,
  phase,
  progress,
  faultCode,
  faultDetail,
}: ImportRow): ImportDescription {
  const fault = faultCode === null ? null : { code: faultCode, detail: faultDetail ?? '' }
  return { source, phase, progress, fault }
}
