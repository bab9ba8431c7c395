import type { Static } from 'typebox'
import { holds } from '#access/may.ts'
import type { Principal } from '#access/principal.ts'
import { Problem } from '#base/problem.ts'
import type { ChangeRow } from '#database/schema.ts'
import type { Actor } from '#events/events.ts'
import { gitCommands } from '#git/process/commands.ts'
import type { Git } from '#git/process/git-process.ts'
import { isAncestor } from '#git/refs/ancestry.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { branchPrefix, readRefs } from '#git/refs/refs.ts'
import type { ApiWrite } from '#git-server/api-writes/api-push.ts'
import type { ProposeCommit } from '#git-server/api-writes/create-commit.ts'
import type { FindConflict } from '#git-server/api-writes/find-conflict.ts'
import type { MergeBranch } from '#git-server/api-writes/merge-branch.ts'
import type { ProposedCommitBody } from '#git-server/api-writes/write-schemas.ts'
import type {
  FindUnapproved,
  Landing,
  Proposal,
  Proposals,
  VersionNumber,
} from '#git-server/push/proposal.ts'
import { invalid } from '#http/validation.ts'
import type { Repositories, Repository } from '#repositories/repositories.ts'
import type { Protections } from '#repositories/rights/protections.ts'
import { groupsOf } from '#repositories/role-store.ts'
import { createFindUnapproved } from './approvals.ts'
import type { ChangeBody, ChangeDetailsSchema, ChangeEditBody, LandBody } from './change-schemas.ts'
import {
  type ChangeFilter,
  findChange,
  listChanges,
  listChangeVersions,
  listFollowing,
  listWaiting,
  updateChange,
} from './change-store.ts'
import { branchOf, type ChangeView, toChange, toVersion } from './change-view.ts'
import { type CompareVersions, createCompareVersions } from './compare-versions.ts'
import { createLandingNeeds } from './landing-needs.ts'
import { changeClosed, requireLastVersion, withLockedChange } from './locked-change.ts'
import { readProposed, requireFewOpen } from './proposals.ts'
import { createLandingQueue, type LandingQueue, requireQueueMethod } from './queue/queue.ts'
import { type QueueWorkParts, startQueueWork } from './queue/queue-work.ts'
import { createReview, type Review } from './review.ts'

type ChangeDetails = Static<typeof ChangeDetailsSchema>

/** Changes: commits that are proposed for branches, until they land there. */
export type Changes = {
  /** Makes versions of the changes that follow branches of a repository, after a push. Does not reject. */
  follow: Proposals['follow']
  /** Changes before a number, newest first. */
  list: (
    repository: Repository,
    page: ChangeFilter & { before?: number | undefined; limit: number },
  ) => Promise<ChangeView[]>
  /** The changes that wait for a principal in the repositories that it can see, with their names; the last updated first. */
  listWaiting: (
    principal: Principal,
    limit: number,
  ) => Promise<(ChangeView & { repository: string })[]>
  review: Review
  queue: LandingQueue
  findUnapproved: FindUnapproved
  /** Finds a change, as pushes have left it. Throws `change_not_found`. */
  find: (repository: Repository, number: string) => Promise<ChangeRow>
  /** Throws `change_not_found`. */
  get: (principal: Principal, repository: Repository, number: string) => Promise<ChangeDetails>
  compare: CompareVersions
  /** Proposes a branch for another one. Throws the Problems of a proposal. */
  open: (
    principal: Principal,
    repository: Repository,
    body: Static<typeof ChangeBody>,
  ) => Promise<ChangeDetails>
  /** Makes a commit and proposes it for a branch. Throws the Problems of a commit and of a proposal. */
  propose: (write: ApiWrite, body: Static<typeof ProposedCommitBody>) => Promise<ChangeDetails>
  /** Changes the title, the description or the state. Throws `change_not_found`, `change_closed` and `role_insufficient`. */
  edit: (
    principal: Principal,
    repository: Repository,
    number: string,
    body: Static<typeof ChangeEditBody>,
  ) => Promise<ChangeDetails>
  /** Starts the work on the queues. */
  start: () => AsyncDisposable
  /** Lands the last version on the branch, or puts it into the queue. Throws what is missing, and the Problems of a merge. */
  land: (write: ApiWrite, number: string, body: Static<typeof LandBody>) => Promise<ChangeDetails>
}

type Dependencies = QueueWorkParts & {
  git: Git
  baseUrl: () => string
  hasUnfinishedPushes: (repository: Repository) => Promise<boolean>
  pusherOf: (repository: Repository, ref: string, id: string) => Promise<Actor | undefined>
  makeVersion: (proposal: Proposal) => Promise<VersionNumber>
  mergeBranch: MergeBranch
  proposeCommit: ProposeCommit
  findConflict: FindConflict
  protections: Pick<Protections, 'listInForce'>
  repositories: Pick<Repositories, 'roleOfUser' | 'namesOf' | 'reopen'>
}

type CatchUpOptions = {
  /** Who has pushed, where the journal does not know; else the user who has proposed the change. */
  actor?: Actor | undefined
  /** Whether a change may have landed although its branch has not moved. */
  comparesTarget?: boolean
}

export function createChanges(dependencies: Dependencies): Changes {
  const {
    db,
    git,
    publish,
    clock,
    log,
    baseUrl,
    proposals,
    pusherOf,
    hasUnfinishedPushes,
    makeVersion,
    mergeBranch,
    proposeCommit,
  } = dependencies

  const review = createReview(dependencies)
  const queue = createLandingQueue(dependencies)
  const { verdicts } = review
  const findUnapproved = createFindUnapproved({ db, git, verdicts, groupsOf })
  const { missingFor, landingOf } = createLandingNeeds({ ...dependencies, hasQueue: queue.isFor })

  async function find(repository: Repository, number: string): Promise<ChangeRow> {
    const change = /^[1-9]\d{0,8}$/.test(number)
      ? await findChange(db, { repositoryId: repository.id, number: Number(number) })
      : undefined
    if (
      change?.state === 'open' &&
      (await catchUpAll(repository, [change], { comparesTarget: true }))
    )
      return find(repository, number)
    if (change) return change
    throw new Problem('change_not_found', `There is no change ${number} in this repository.`)
  }

  async function get(
    principal: Principal,
    repository: Repository,
    number: string,
  ): Promise<ChangeDetails> {
    // First, so that what is neither queued nor landed was removed.
    const queued = await queue.find(repository, number)
    const change = await find(repository, number)
    const versions = await listChangeVersions(db, change)
    // Another request has made a version meanwhile.
    if (versions.at(-1)?.version !== change.version) return get(principal, repository, number)
    const { comments, unresolved } = await review.count(change)
    return {
      ...toChange(change, repository, baseUrl()),
      description: change.description,
      versions: versions.map(toVersion),
      verdicts: await review.verdicts(change, versions),
      ...{ comments, unresolvedThreads: unresolved },
      queued: change.state === 'open' ? queued : null,
      queueNote: noteFor(principal, change),
      ...(await landingOf(principal, repository, change)),
    }
  }

  /**
   * Records what pushes have done to an open change: its branch has moved, which makes a version, or the target has got its
   * commit, so that it has landed. Returns whether anything has changed.
   */
  async function catchUp(
    repository: Repository,
    change: ChangeRow,
    { actor = { id: '', username: change.username }, comparesTarget }: CatchUpOptions,
  ): Promise<boolean> {
    const { number, target, source, version } = change
    const { path } = repository
    const values = await readRefs(path, source === '' ? [target] : [source, target])
    const tip = values.get(target) ?? zeroId
    const commitId = values.get(source) ?? change.commitId
    if (commitId === zeroId || tip === zeroId) return false
    const hasMoved = commitId !== change.commitId
    // Each comparison takes a process of git.
    if (!hasMoved && !comparesTarget) return false
    if (await isAncestor(git, path, change.commitId, tip)) {
      // It is about to be recorded as landed by the push.
      if (await hasUnfinishedPushes(repository)) return false
      await recordLanded(actor, repository, { changes: [{ number, version }], commit: tip })
      return true
    }
    if (!hasMoved) return false
    const pushedBy = await pusherOf(repository, source, commitId)
    const about = { repository, target, source, commitId, number, pushedBy }
    await makeVersion(await readProposed(git, { actor: pushedBy ?? actor, ...about }))
    return true
  }

  /** The same for several changes. A failure is logged: the next request tries again. */
  async function catchUpAll(
    repository: Repository,
    changes: readonly ChangeRow[],
    options: CatchUpOptions = {},
  ): Promise<boolean> {
    let hasChanged = false
    for (const change of changes) {
      try {
        if (await catchUp(repository, change, options)) hasChanged = true
      } catch (error) {
        // Its branch has no commit in common with the target any more, for instance.
        if (!(error instanceof Problem))
          log.error({ err: error, repositoryId: repository.id }, 'change not updated')
      }
    }
    return hasChanged
  }

  /** Throws `update_refused` for a change with merges, which a rebase leaves out with what they changed. */
  async function refuseMerges(
    { path }: Repository,
    { target, commitId }: ChangeRow,
  ): Promise<void> {
    const range = `${target}..${commitId}`
    if ((await git.run(gitCommands.listMerges(path, range))) === '') return
    const detail =
      'The change has merge commits, which a rebase leaves out. Land it with another method.'
    throw new Problem('update_refused', detail)
  }

  async function recordLanded(
    actor: Actor,
    { id: repositoryId }: Repository,
    landing: Landing & { commit: string },
  ): Promise<void> {
    await db.transaction().execute(async (tx) => {
      const now = clock.now()
      const landed = { ...landing, actor, repositoryId, pushId: null, now }
      await publish(tx, now, await proposals.land(tx, landed))
    })
  }

  return {
    review,
    queue,
    start: () => startQueueWork(dependencies),
    findUnapproved,
    compare: createCompareVersions({ db, git }),
    find,
    get,

    async list(repository, { target, source, ...page }) {
      const refOf = (branch?: string) => (branch === undefined ? undefined : branchPrefix + branch)
      const refs = { target: refOf(target), source: refOf(source) }
      const list = () => listChanges(db, repository.id, { ...page, ...refs })
      const found = await list()
      const following = found.filter(({ source, state }) => source !== '' && state === 'open')
      const rows = (await catchUpAll(repository, following)) ? await list() : found
      return rows.map((row) => toChange(row, repository, baseUrl()))
    },

    async listWaiting(principal, limit) {
      const rows = await listWaiting(db, principal.username, limit)
      const ids = [...new Set(rows.map(({ repositoryId }) => repositoryId))]
      const names = await dependencies.repositories.namesOf(principal, ids)
      return rows.flatMap((row) => {
        const name = names.get(row.repositoryId)
        return name === undefined
          ? []
          : [{ ...toChange(row, { name }, baseUrl()), repository: name }]
      })
    },

    async follow(repository, actor) {
      try {
        await catchUpAll(repository, await listFollowing(db, repository.id), { actor })
      } catch (error) {
        log.error({ err: error, repositoryId: repository.id }, 'changes not updated')
      }
    },

    async open(principal, repository, { source, target, title, description }) {
      if (source === target)
        throw invalid([{ pointer: '/source', detail: 'must be another branch than `target`.' }])
      const ref = branchPrefix + source
      const commitId = (await readRefs(repository.path, [ref])).get(ref) ?? zeroId
      if (commitId === zeroId) throw new Problem('ref_not_found', `There is no branch "${source}".`)
      if (title?.trim() === '') throw emptyTitle()
      const pushedBy = await pusherOf(repository, ref, commitId)
      const proposal = await readProposed(git, {
        ...{ actor: principal, repository, commitId, title, description, pushedBy },
        target: branchPrefix + target,
        source: ref,
      })
      const { number } = await makeVersion(proposal)
      return get(principal, repository, String(number))
    },

    async propose(write, body) {
      // As in `refs/changes/7/1`.
      const [, , number = ''] = (await proposeCommit(write, body)).split('/')
      return get(write.principal, write.repository, number)
    },

    async edit(principal, repository, number, body) {
      const { username } = principal
      const found = await find(repository, number)
      if (found.username !== username && repository.role === 'read') {
        const detail =
          'Only the user who has proposed a change, and those who may push, may edit it.'
        throw new Problem('role_insufficient', detail)
      }
      await withLockedChange(db, { repository, change: found }, async (tx, change) => {
        if (change.state === 'landed' && body.state !== undefined) throw changeClosed(change)
        if (body.title?.trim() === '') throw emptyTitle()
        const isReopened = change.state === 'abandoned' && body.state === 'open'
        if (isReopened) await requireFewOpen(tx, repository, change)
        const wanted = { ...change, ...body }
        const changed = (['title', 'description', 'state'] as const).filter(
          (name) => wanted[name] !== change[name],
        )
        if (changed.length === 0) return
        const now = clock.now()
        const { title, description, state } = wanted
        const isAbandoned = change.state === 'open' && state === 'abandoned'
        const end = {
          ...(state === 'open' && { closedAt: null, closedBy: null }),
          ...(isAbandoned && { closedAt: now, closedBy: username }),
        }
        await updateChange(tx, change, { title, description, state, updatedAt: now, ...end })
        const data = { number: change.number, target: change.target, changed, state, title }
        const repositoryId = repository.id
        await publish(tx, now, [{ kind: 'change.updated', actor: principal, repositoryId, data }])
      })
      return get(principal, repository, number)
    },

    async land(write, number, { method, version, message, urgent = false }) {
      const { principal, repository } = write
      const change = await find(repository, number)
      if (version !== undefined) requireLastVersion(change, version)
      const [first] = await missingFor(principal, repository, change)
      if (first) throw first
      if (method === 'rebase') await refuseMerges(repository, change)
      if (await queue.isFor(repository, change.target)) {
        requireQueueMethod(method)
        const wanted = { method, message: message ?? messageOf(change), isUrgent: urgent }
        await queue.enter(principal, repository, change, wanted)
        return get(principal, repository, number)
      }
      if (urgent)
        throw invalid([{ pointer: '/urgent', detail: 'has no effect: the branch has no queue.' }])
      const hasMessage = method === 'merge' || method === 'squash'
      const landing = { changes: [{ number: change.number, version: change.version }] }
      const made = await mergeBranch(
        { ...write, landing },
        {
          base: branchOf(change),
          head: change.commitId,
          method,
          ...(hasMessage && { message: message ?? messageOf(change) }),
        },
      )
      // The branch had its commits already.
      if (!made.merged) await recordLanded(principal, repository, { ...landing, commit: made.id })
      return get(principal, repository, number)
    },
  }
}

function emptyTitle(): Problem {
  return invalid([{ pointer: '/title', detail: 'must have a character that is visible.' }])
}

/** What the queue says of a change; the lines of a log only to those who may read it. */
function noteFor(principal: Principal, { queueNote }: ChangeRow): string | null {
  const [first = ''] = queueNote.split('\n')
  return (holds(principal, 'workflow:read') ? queueNote : first) || null
}

function messageOf({ title, description, number }: ChangeRow): string {
  return `${title}\n\n${description === '' ? '' : `${description}\n\n`}Change: ${number}\n`
}
