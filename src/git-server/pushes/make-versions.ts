import type { Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import type { Database } from '#database/database.ts'
import { bytesOfPacks } from '#git/objects/packs.ts'
import type { Git } from '#git/process/git-process.ts'
import type { PushResult } from '#git/protocol/hook-channel.ts'
import { versionName, versionRef } from '#git/refs/ref-name.ts'
import type { RefUpdate } from '#git/refs/refs.ts'
import type { Directories } from '#repositories/directories/directories.ts'
import { enforceByteLimit } from '#repositories/namespace-limits.ts'
import type { Repository } from '#repositories/repositories.ts'
import type { RepositoryHolds } from '#repositories/repository-holds.ts'
import { measureRepository } from '#repositories/repository-sizes.ts'
import type { CommittedChange } from '#repositories/store/commit-change.ts'
import type { SharedChanges, Store } from '#repositories/store/store.ts'
import {
  authorizeGuarded,
  authorizePush,
  type PushAuthorization,
} from '../authorize-push/authorize-push.ts'
import type { Proposal, Proposals, VersionNumber } from '../push/proposal.ts'
import type { Push } from '../push/push.ts'
import { openQuarantine, withPushLimits } from '../push/pushed-objects.ts'
import { commitKept } from './keep-commits.ts'
import { moveHeldRefs } from './retained-commits.ts'

/** Makes versions of changes: a hidden ref keeps the commit of each, and a row names it. */
export type MakeVersions = {
  /** Authorizes a push that proposes; a shared store makes its version. */
  authorize: (push: Push, updates: RefUpdate[]) => Promise<PushResult | undefined>
  /** Makes the version of a push that was authorized, once its objects are in the repository. */
  propose: (push: Push, updates: RefUpdate[]) => Promise<PushResult>
  /** Makes a version of a commit of the repository. */
  make: (proposal: Proposal) => Promise<VersionNumber>
}

type Parts = PushAuthorization & { proposals: Proposals }

type LocalParts = Parts & {
  db: Database
  store: Pick<Store, 'packBytes'>
  directories: Pick<Directories, 'pathOf'>
  repositoryHolds: Pick<RepositoryHolds, 'acquire'>
  faultPoint: FaultPoint
  /** Serializes the pushes of a repository. */
  exclusively: (repositoryId: string, work: () => Promise<void>) => Promise<void>
}

/** In a directory of this machine: first the ref, which a later version overwrites if its row is not written. */
export function createLocalVersions(parts: LocalParts): MakeVersions {
  const { db, git, proposals, faultPoint, exclusively } = parts

  async function make(proposal: Proposal): Promise<VersionNumber> {
    const { repository, commitId } = proposal
    const patchId = await proposals.identify(proposal, git)
    let made: VersionNumber = { number: 0, version: 0 }
    await exclusively(repository.id, async () => {
      made = await proposals.next(db, proposal)
      await moveHeldRefs(parts, repository.id, [{ ref: versionRef(made), to: commitId }])
      faultPoint('proposal.kept')
      await db.transaction().execute((tx) => proposals.record(tx, proposal, { ...made, patchId }))
    })
    return made
  }

  return {
    make,

    async authorize(push, updates) {
      const authorized = await authorizeGuarded(parts, push, updates)
      const scopedGit = await openQuarantine(withPushLimits(git, parts.settings), push)
      const pushed = { push, updates, git: scopedGit }
      await proposals.next(db, await readPushed(parts, pushed, authorized))
      return { warnings: authorized.warnings, isDeclined: false }
    },

    async propose(push, updates) {
      const authorized = await authorizePush(parts, push, updates)
      const proposal = await readPushed(parts, { push, updates, git }, authorized)
      const made = await make(proposal)
      await measureRepository(parts, proposal.repository.id)
      return toResult(parts, { proposal, made, updates, warnings: [] })
    },
  }
}

type SharedParts = Parts & {
  shared: SharedChanges
  clock: Clock
  faultPoint: FaultPoint
  /** Called with a change whose objects are still in quarantine. */
  onCommitted: (push: Push, change: CommittedChange) => void
}

/** In a shared store: the ref and the row in one transaction. */
export function createSharedVersions(parts: SharedParts): MakeVersions {
  const { shared, git, proposals, clock, onCommitted } = parts
  const limitedGit = withPushLimits(git, parts.settings)

  async function commit(
    proposal: Proposal,
    push: Pick<Push, 'repository' | 'quarantine'>,
    recheck: () => Promise<void>,
  ): Promise<{ made: VersionNumber; change: CommittedChange | undefined }> {
    const { repository, commitId: tip } = proposal
    const { quarantine } = push
    const scopedGit = await openQuarantine(limitedGit, push)
    const patchId = await proposals.identify(proposal, scopedGit)
    const bytes = quarantine === undefined ? 0 : await bytesOfPacks(quarantine)
    let made: VersionNumber = { number: 0, version: 0 }
    const retain = () => new Map([[versionRef(made), tip]])
    const kept = { repository, quarantine, tip, retain }
    const change = await commitKept({ ...parts, git: limitedGit }, kept, {
      async begin(tx) {
        await recheck()
        made = await proposals.next(tx, proposal)
        return { pushedAt: clock.now() }
      },
      async record(tx, { packs }) {
        if (packs.length > 0) await enforceByteLimit(tx, repository.id, bytes)
        await proposals.record(tx, proposal, { ...made, patchId })
      },
    })
    return { made, change }
  }

  return {
    async make(proposal) {
      const { repository } = proposal
      const { made, change } = await commit(proposal, { repository }, async () => {})
      if (change) await shared.show(repository.id, change)
      return made
    },

    async authorize(push, updates) {
      const authorized = await authorizeGuarded(parts, push, updates)
      const scopedGit = await openQuarantine(limitedGit, push)
      const proposal = await readPushed(parts, { push, updates, git: scopedGit }, authorized)
      const { made, change } = await commit(proposal, push, authorized.recheck)
      if (change) onCommitted(push, change)
      return toResult(parts, { proposal, made, updates, warnings: authorized.warnings })
    },

    propose: async () => {
      throw new Error('A shared store makes versions when pushes are authorized.')
    },
  }
}

/** Reads what a push proposes, once it is authorized; `git` sees its objects. */
function readPushed(
  { proposals }: Pick<Parts, 'proposals'>,
  { push, updates, git }: { push: Push; updates: RefUpdate[]; git: Git },
  { principal, repository }: { principal: Principal; repository: Repository },
): Promise<Proposal> {
  const [update] = updates
  if (!update) throw new Error('A proposal has one update.')
  return proposals.read({ principal, repository, topic: push.proposal?.topic }, update, git)
}

type Made = { proposal: Proposal; made: VersionNumber; updates: RefUpdate[]; warnings: string[] }

function toResult(
  { proposals }: { proposals: Proposals },
  { proposal, made, updates, warnings }: Made,
): PushResult {
  const name = versionName(made)
  return {
    results: updates.map(({ ref }) => ({ ref, refusal: undefined, name })),
    warnings,
    lines: proposals.describe(proposal, made),
    isDeclined: false,
  }
}
