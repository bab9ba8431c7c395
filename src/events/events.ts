import { sql } from 'kysely'
import type { Origin } from '#access/principal.ts'
import type { Role } from '#access/roles.ts'
import type { Visibility } from '#access/visibility.ts'
import type { Json } from '#base/json.ts'
import type { ChangeRow, Db, RunRow, RunTokenAccess } from '#database/schema.ts'
import type { PushedUpdate } from '#git/refs/refs.ts'

/** Every kind of event, with its data. */
export type EventData = {
  push: PushedUpdate & { pushId: string; via: string; repositoryName: string }
  'push.leak_allowed': PushedLeaks
  'repository.created': { name: string }
  'repository.imported': { name: string; source: string }
  'repository.renamed': { name: string; formerName: string }
  'repository.description': { description: string }
  'repository.leak_guard': { enabled: boolean }
  'repository.run_tokens': { access: RunTokenAccess }
  'repository.visibility': { visibility: Visibility; formerVisibility: Visibility }
  'repository.transferred': { ownerUsername: string; formerOwnerUsername: string }
  'repository.default_branch': { branch: string; formerBranch: string }
  'repository.deleted': { name: string; ownerUsername: string }
  'repository.restored': { name: string; formerName: string }
  'repository.purged': { name: string; ownerUsername: string }
  'protection.added': ProtectionData & InNamespace
  'protection.changed': ProtectionData & InNamespace
  'protection.removed': Pick<ProtectionData, 'branch' | 'tag'> & InNamespace
  'collaborator.added': { username: string; role: Role }
  'collaborator.changed': { username: string; role: Role; formerRole: Role }
  'collaborator.removed': { username: string }
  'namespace.created': { namespace: string }
  'namespace.updated': { namespace: string; formerName: string }
  'namespace.limited': {
    namespace: string
    maxRepositories: number | null
    maxBytes: number | null
  }
  'namespace.deleted': { namespace: string }
  'namespace.member_added': { namespace: string; member: string; role: Role }
  'namespace.member_removed': { namespace: string; member: string }
  'secret.saved': { name: string } & InNamespace
  'secret.deleted': { name: string } & InNamespace
  'lfs_lock.created': LfsLockData
  'lfs_lock.deleted': LfsLockData
  'status.reported': {
    commit: string
    context: string
    state: string
    description: string
    targetUrl: string
  }
  'change.opened': ChangeData & { version: number; commit: string; title: string }
  'change.version_added': ChangeData & { version: number; commit: string; title: string }
  'change.updated': ChangeData & { changed: string[]; state: ChangeRow['state']; title: string }
  'change.commented': ChangeData & {
    commentId: string
    threadId: string
    version: number
    path: string
    line: number | null
  }
  'change.comment_updated': ChangeData & { commentId: string; threadId: string; resolved: boolean }
  'change.verdict_given': ChangeData & { version: number; verdict: string }
  'change.landed': ChangeData & {
    version: number
    commit: string
    pushId: string | null
    title: string
    /** What the queue says of it, in a sentence. */
    note: string
  }
  'change.queued': ChangeData & { version: number; method: string; urgent: boolean; title: string }
  'change.unqueued': ChangeData & { version: number; reason: string; detail: string; title: string }
  'queue.trial_started': { target: string; ref: string; commit: string; changes: number[] }
  workflow: WorkflowData
  'webhook.created': { webhookId: string; events: string[] } & InNamespace
  'webhook.updated': { webhookId: string; changed: string[] } & InNamespace
  'webhook.disabled': { webhookId: string; reason: string } & InNamespace
  'webhook.deleted': { webhookId: string } & InNamespace
  'user.updated': {
    username: string
    changed: string[]
    disabled: boolean
    /** Whether the user is an admin by its groups now, if that has changed. */
    admin?: boolean | undefined
    /** The person at the identity provider who was linked, if that has changed; empty for none. */
    loginSubject?: string | undefined
    /** The groups at the identity provider that the user has got and lost, the first hundred of each. */
    addedGroups?: string[] | undefined
    removedGroups?: string[] | undefined
  }
  'user.deleted': { username: string }
  'token.created': {
    tokenId: string
    name: string
    username: string
    permissions: string[]
    /** The ids of the repositories that it is limited to, and the patterns of the refs that it may push; null for all. */
    repositoryIds: string[] | null
    refs: string[] | null
    /** The id of the token that it was delegated from. */
    delegatedFrom: string | null
  }
  'token.deleted': { tokenId: string }
  'ssh_key.added': {
    keyId: string
    name: string
    username: string
    fingerprint: string
    permissions: string[]
    /** The ids of the repositories that it is limited to; null for all. */
    repositoryIds: string[] | null
    expiresAt: number | null
  }
  'ssh_key.deleted': { keyId: string; username: string }
  'trust_rule.created': {
    ruleId: string
    name: string
    issuer: string
    audience: string
    claims: Record<string, string>
    refs: string[] | null
    permissions: string[]
  } & InNamespace
  'trust_rule.deleted': { ruleId: string; name: string } & InNamespace
}

/** A change, and the full name of the branch that it is for. */
type ChangeData = { number: number; target: string }

/** The leak guard's findings in a push that was allowed in spite of them, without the credentials. */
type PushedLeaks = {
  pushId: string
  via: string
  repositoryName: string
  findings: { id: string; kind: string; commit: string; path: string; line: number }[]
}

/** A protection of branches or of tags, with its rules; either `branch` or `tag` is null. */
type ProtectionData = {
  branch: string | null
  tag: string | null
  owners: string
  requires: Json[]
  approvals: number
  codeOwners: boolean
  queue: boolean
}

/** The name of the namespace of an event that is about all of its repositories. */
type InNamespace = { namespace?: string }

/** A lock of Git LFS, and the user who owns it. */
type LfsLockData = { lockId: string; path: string; username: string }

/** A run has reached a new state. */
type WorkflowData = {
  action: 'queued' | 'running' | 'completed'
  runId: string
  attempt: number
  number: number
  name: string
  repositoryName: string
  branch: string
  ref: string
  commit: string
  event: RunRow['event']
  files: string[]
  labels: string[]
  isolation: string
  conclusion: RunRow['conclusion']
  fault: string
  createdAt: number
  queuedAt: number
  startedAt: number | null
  completedAt: number | null
}

/** All kinds of events. */
export const eventKinds = [
  'push',
  'push.leak_allowed',
  'repository.created',
  'repository.imported',
  'repository.renamed',
  'repository.description',
  'repository.leak_guard',
  'repository.run_tokens',
  'repository.visibility',
  'repository.transferred',
  'repository.default_branch',
  'repository.deleted',
  'repository.restored',
  'repository.purged',
  'protection.added',
  'protection.changed',
  'protection.removed',
  'collaborator.added',
  'collaborator.changed',
  'collaborator.removed',
  'namespace.created',
  'namespace.updated',
  'namespace.limited',
  'namespace.deleted',
  'namespace.member_added',
  'namespace.member_removed',
  'secret.saved',
  'secret.deleted',
  'lfs_lock.created',
  'lfs_lock.deleted',
  'status.reported',
  'change.opened',
  'change.version_added',
  'change.updated',
  'change.commented',
  'change.comment_updated',
  'change.verdict_given',
  'change.landed',
  'change.queued',
  'change.unqueued',
  'queue.trial_started',
  'workflow',
  'webhook.created',
  'webhook.updated',
  'webhook.disabled',
  'webhook.deleted',
  'user.updated',
  'user.deleted',
  'token.created',
  'token.deleted',
  'ssh_key.added',
  'ssh_key.deleted',
  'trust_rule.created',
  'trust_rule.deleted',
] as const satisfies (keyof EventData)[]

/**
 * The principal that caused an event. `id` is the id of the token or SSH key, or `local` for commands on the server.
 */
export type Actor = {
  id: string
  username: string
  /** Absent for commands on the server, and for changes that the server makes itself. */
  origin?: Origin | undefined
}

export type Event = {
  [Kind in (typeof eventKinds)[number]]: {
    kind: Kind
    actor: Actor
    repositoryId: string | null
    data: EventData[Kind]
  }
}[keyof EventData]

/** An event with its sequence number in the log. */
export type PublishedEvent = Event & { seq: number }

/**
 * Appends events to the log, in the transaction that caused them. It locks the event counter, which every publisher
 * needs. To avoid deadlocks, lock deliveries and webhooks after it, in the order of their ids, and all other rows before.
 */
export type Publish = (tx: Db, now: number, events: Event[]) => Promise<void>

/**
 * Called with new events, and their time, in the transaction that published them. Calls never overlap, on any server, and
 * times do not decrease.
 */
export type Subscriber = (tx: Db, now: number, events: PublishedEvent[]) => Promise<void>

const batchSize = 500
// Longer than a statement of PostgreSQL may wait for a lock.
const maxLagMs = 15_000

/**
 * Sequence numbers start at 1, have no gaps and become visible in order, because the row of the counter stays locked
 * until the transaction ends.
 */
export function createPublish(subscribers: readonly Subscriber[]): Publish {
  return async (tx, now, events) => {
    if (events.length === 0) return
    const { value: last } = await tx
      .updateTable('marks')
      .set({ value: sql<number>`value + ${events.length}` })
      .where('name', '=', 'events')
      .returning('value')
      .executeTakeFirstOrThrow()
    const published = events.map((event, index) => ({
      ...event,
      seq: last - events.length + 1 + index,
    }))
    const rows = published.map(({ seq, kind, actor, repositoryId, data }) => ({
      seq,
      kind,
      repositoryId,
      actorId: actor.id,
      actorUsername: actor.username,
      data: JSON.stringify(data),
    }))
    const [first, ...others] = rows
    if (!first) return
    const { createdAt } = await tx
      .insertInto('events')
      .values({ ...first, createdAt: timeAfterLast(first.seq, now) })
      .returning('createdAt')
      .executeTakeFirstOrThrow()
    for (let start = 0; start < others.length; start += batchSize) {
      const batch = others.slice(start, start + batchSize)
      await tx
        .insertInto('events')
        .values(batch.map((row) => ({ ...row, createdAt })))
        .execute()
    }
    for (const subscriber of subscribers) await subscriber(tx, createdAt, published)
  }
}

/**
 * The time of an event: `now`, or the time of the preceding event if that is later, because this publisher waited for
 * the counter or its clock is behind. A time far ahead came from a wrong clock and is ignored.
 */
function timeAfterLast(seq: number, now: number) {
  const isFollowed = sql`seq = ${seq - 1} and created_at < ${now + maxLagMs}`
  return sql<number>`(select max(at) from (
    select cast(${now} as bigint) as at union all select created_at from events where ${isFollowed}
  ) as times)`
}
