import type { Clock } from '#base/clock.ts'
import { printable } from '#base/format.ts'
import { Problem } from '#base/problem.ts'
import type { ChangeRow, Db } from '#database/schema.ts'
import type { Actor, Event, Publish } from '#events/events.ts'
import { parseCommit } from '#git/objects/commit-object.ts'
import { type ObjectReader, ObjectTooLargeError, openObjects } from '#git/objects/object-reader.ts'
import type { Git } from '#git/process/git-process.ts'
import { findMergeBase } from '#git/refs/ancestry.ts'
import { proposalRefs } from '#git/refs/ref-name.ts'
import { branchPrefix } from '#git/refs/refs.ts'
import {
  type Proposal,
  type Proposals,
  readProposalTarget,
  type VersionNumber,
} from '#git-server/push/proposal.ts'
import type { Repository } from '#repositories/repositories.ts'
import {
  countOpen,
  findChange,
  insertChange,
  insertVersion,
  lastNumber,
  listOwnOpen,
  lockChange,
  updateChange,
} from './change-store.ts'
import { patchIdOf } from './patch-id.ts'
import { deleteQueued } from './queue/queued-store.ts'

type Dependencies = {
  publish: Publish
  clock: Clock
  baseUrl: () => string
}

/** Of a user who cannot push, and of one who can, in a repository. */
const maxOpen = { read: 20, other: 1000 }
const maxVersions = 500
const commitMaxBytes = 1024 * 1024
export const titleMaxLength = 250
export const descriptionMaxLength = 65_536

/** The page of a change. */
export function urlOfChange(
  baseUrl: string,
  { name }: Pick<Repository, 'name'>,
  number: number,
): string {
  return `${baseUrl}/r/${name}/changes/${number}`
}

/** What a proposal is read from. */
export type ProposedCommit = {
  actor: Actor
  repository: Repository
  target: string
  source: string
  commitId: string
  number?: number | undefined
  pushedBy?: Actor | undefined
  topic?: string | undefined
  title?: string | undefined
  description?: string | undefined
}

/**
 * Reads a commit that is proposed for a branch. Throws `ref_not_found` without that branch, `objects_refused` for an object
 * that is no commit, `histories_unrelated`, and `nothing_changed` for one that the branch has.
 */
export async function readProposed(
  git: Git,
  { actor, repository, target, source, commitId, number, pushedBy, ...given }: ProposedCommit,
): Promise<Proposal> {
  const { path } = repository
  const branch = target.slice(branchPrefix.length)
  const { tip } = await readProposalTarget(path, proposalRefs + branch)
  await using objects = await openObjects(git, path)
  const { message, changeId, treeId } = await readMessage(objects, commitId)
  const baseId = await findMergeBase(git, path, tip, commitId)
  if (baseId === undefined) {
    const detail = `The commit ${commitId} and "${branch}" have no commit in common, so it cannot land there.`
    throw new Problem('histories_unrelated', detail)
  }
  if (baseId === commitId)
    throw new Problem('nothing_changed', `"${branch}" has the commit ${commitId} already.`)
  const [subject = '', ...rest] = message.trimStart().split('\n')
  // A database stores no NUL.
  const title =
    given.title?.trim() || printable(subject).trim() || `Commit ${commitId.slice(0, 12)}`
  const description = given.description ?? rest.join('\n').replaceAll('\0', '').trim()
  return {
    ...{ actor, repository, target, source, commitId, number, baseId, treeId, pushedBy },
    topic: given.topic === undefined ? changeId : `topic:${given.topic}`,
    title: title.slice(0, titleMaxLength),
    description: description.slice(0, descriptionMaxLength),
  }
}

/** The message of a commit, and its id as a change: the trailer `Change-Id` of Gerrit's hook, or the header `change-id` of jj. */
async function readMessage(
  objects: ObjectReader,
  id: string,
): Promise<{ message: string; changeId: string; treeId: string }> {
  const commit = await objects.read(id, commitMaxBytes).catch((error) => {
    if (!(error instanceof ObjectTooLargeError)) throw error
    throw new Problem('objects_refused', `The object ${id} has more than 1 MiB.`)
  })
  if (commit?.type !== 'commit') throw new Problem('objects_refused', `${id} is no commit.`)
  const { message, tree } = parseCommit(commit.content)
  const head = commit.content.toString('latin1').split('\n\n')[0] ?? ''
  const [, trailer] = /^Change-Id: (I[0-9a-f]{8,64})\s*$/m.exec(message.slice(-4096)) ?? []
  const [, header] = /^change-id ([a-z0-9]{8,64})$/m.exec(head) ?? []
  return { message, changeId: trailer ?? header ?? '', treeId: tree }
}

export function createProposals({
  publish,
  clock,
  baseUrl,
  follow,
}: Dependencies & Pick<Proposals, 'follow'>): Proposals {
  async function continued(db: Db, proposal: Proposal): Promise<ChangeRow | undefined> {
    const { repository, target, source, topic, commitId, actor } = proposal
    if (proposal.number !== undefined)
      return findChange(db, { repositoryId: repository.id, number: proposal.number })
    const { username } = actor
    const own = await listOwnOpen(db, { repositoryId: repository.id, target, username })
    const same = own.find((change) => change.commitId === commitId)
    if (same) {
      const detail = `Change ${same.number} has the commit ${commitId} as its version ${same.version} already.`
      throw new Problem('nothing_changed', detail)
    }
    if (source !== '') return own.find((change) => change.source === source)
    const [, number] = /^topic:(\d{1,9})$/.exec(topic) ?? []
    return own.find(
      (change) =>
        change.source === '' &&
        ((topic !== '' && change.topic === topic) || change.number === Number(number)),
    )
  }

  return {
    read({ topic, principal, repository }, { ref, after }, git) {
      const target = branchPrefix + ref.slice(proposalRefs.length)
      return readProposed(git, {
        actor: principal,
        repository,
        target,
        source: '',
        commitId: after,
        topic,
      })
    },

    async next(db, proposal): Promise<VersionNumber> {
      const change = await continued(db, proposal)
      if (change) {
        if (change.state !== 'open' || change.commitId === proposal.commitId)
          throw new Problem('nothing_changed', `Change ${change.number} has moved on.`)
        if (change.version >= maxVersions) throw tooManyVersions(change)
        return { number: change.number, version: change.version + 1 }
      }
      const { repository, actor } = proposal
      await requireFewOpen(db, repository, actor)
      return { number: (await lastNumber(db, repository.id)) + 1, version: 1 }
    },

    async identify({ repository, treeId, ...range }, git) {
      return `${await patchIdOf(git, repository.path, range)}:${treeId}`
    },

    async record(tx, proposal, { number, version, patchId }) {
      const { repository, actor, target, source, topic, title, description } = proposal
      const { commitId, baseId, pushedBy: pusher = actor } = proposal
      const id = { repositoryId: repository.id, number }
      const { username } = actor
      const now = clock.now()
      if (version === 1) {
        await insertChange(tx, {
          ...{ ...id, target, source, topic, title, description, username, version, commitId },
          ...{ state: 'open', createdAt: now, updatedAt: now },
          ...{ closedAt: null, closedBy: null, landedId: null, pushId: null, queueNote: '' },
        })
      } else await updateChange(tx, id, { version, commitId, updatedAt: now })
      const change = (await findChange(tx, id)) ?? proposal
      await insertVersion(tx, {
        ...id,
        version,
        commitId,
        baseId,
        patchId,
        username: pusher.username,
        actorId: pusher.id,
        createdAt: now,
      })
      const data = { number, target, version, commit: commitId, title: change.title }
      const kind = version === 1 ? 'change.opened' : 'change.version_added'
      await publish(tx, now, [{ kind, actor, repositoryId: repository.id, data }])
    },

    async land(tx, { repositoryId, changes, pushId, commit, now, ...landed }): Promise<Event[]> {
      const events: Event[] = []
      for (const { number, version, by: actor = landed.actor, note = '' } of changes) {
        const change = await lockChange(tx, { repositoryId, number })
        if (change?.state !== 'open') continue
        await updateChange(tx, change, {
          ...{ state: 'landed', updatedAt: now, closedAt: now, closedBy: actor.username },
          ...{ landedId: commit, pushId, queueNote: note },
        })
        await deleteQueued(tx, change)
        const { target, title } = change
        const data = { number, target, version, commit, pushId, title, note }
        events.push({ kind: 'change.landed', actor, repositoryId, data })
      }
      return events
    },

    follow,

    describe({ repository, topic, title, source }, { number, version }) {
      const url = urlOfChange(baseUrl(), repository, number)
      const isFirst = version === 1 && topic === '' && source === ''
      return [
        version === 1
          ? `Change ${number}: ${title}`
          : `Change ${number}, version ${version}: ${title}`,
        `  ${url}`,
        ...(isFirst ? [`  For its next version, push with -o topic=${number}.`] : []),
      ]
    },
  }
}

/** Throws `too_many_changes` when a user has as many open changes as it may. */
export async function requireFewOpen(
  db: Db,
  { id: repositoryId, role }: Repository,
  { username }: { username: string },
): Promise<void> {
  const limit = role === 'read' ? maxOpen.read : maxOpen.other
  if ((await countOpen(db, { repositoryId, username })) >= limit) throw tooManyChanges(limit)
}

function tooManyChanges(limit: number): Problem {
  const detail = `You have ${limit} open changes in this repository, which is the maximum. Abandon or land some of them.`
  return new Problem('too_many_changes', detail)
}

function tooManyVersions({ number }: ChangeRow): Problem {
  const detail = `Change ${number} has ${maxVersions} versions, which is the maximum. Abandon it, and propose a new one.`
  return new Problem('too_many_changes', detail)
}
