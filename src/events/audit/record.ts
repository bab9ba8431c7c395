import type { Origin } from '#access/principal.ts'
import type { AuditRow, Db } from '#database/schema.ts'
import { type Actor, type Event, eventKinds, type Subscriber } from '../events.ts'
import { insertEntries, lockNumbers, takeNumbers } from './audit-store.ts'
import { hashEntry, noHash } from './entry-hash.ts'

/** How a person logs in to the web pages: with a token, with a login link, or at the identity provider. */
export type LoginMeans = 'token' | 'login-link' | 'identity-provider'

/** Recorded actions that are not events, with their data. */
type ActionData = {
  'import.started': { name: string; source: string }
  'run.started': { runId: string; number: number; files: string[]; ref: string; commit: string }
  'run.rerun': { runId: string; jobs: 'all' | 'failed' }
  'run.cancelled': { runId: string }
  'run.approved': { runId: string }
  /** `audience` is null for the default, the address of the service. */
  'id_token.issued': {
    runId: string
    attempt: number
    file: string
    subject: string
    audience: string | null
  }
  /** The actor is the workload: a token by a trust rule. */
  'token.exchanged': { ruleId: string; issuer: string; subject: string; expiresAt: number }
  /** By a workload whose token its issuer has signed. */
  'token.exchange_refused': { issuer: string; subject: string; repositoryName: string }
  /** Of a person for whom the identity provider vouches; the reason is what the person was shown. */
  'login.refused': { issuer: string; subject: string; reason: string }
  'run_shell.opened': { runId: string; shellId: string; job: string }
  'run_shell.closed': {
    runId: string
    shellId: string
    seconds: number
    exitCode: number | null
    /** Why the shell was ended, if it did not exit by itself. */
    reason: string
  }
  'artifact.deleted': { runId: string; name: string }
  'cache.deleted': { key: string | null; ref: string | null; count: number }
  /** The actor is the token or key that was used to log in. */
  'session.created': {
    sessionId: string
    userAgent: string
    expiresAt: number
    means: LoginMeans
  }
  /** `sessionId` is null when all other sessions of the user were ended. */
  'session.ended': { sessionId: string | null; count: number }
  'webhook.pinged': { webhookId: string; deliveryId: string }
  'delivery.retried': { webhookId: string; deliveryId: string }
  'deliveries.replayed': {
    webhookId: string
    since: number
    until: number
    onlyFailed: boolean
  }
  'encryption_key.rotated': { values: number }
  /** Entries up to `upTo` were removed after their retention period. */
  'audit.pruned': { upTo: number; hash: string }
}

const otherActions = [
  'import.started',
  'run.started',
  'run.rerun',
  'run.cancelled',
  'run.approved',
  'id_token.issued',
  'token.exchanged',
  'token.exchange_refused',
  'login.refused',
  'run_shell.opened',
  'run_shell.closed',
  'artifact.deleted',
  'cache.deleted',
  'session.created',
  'session.ended',
  'webhook.pinged',
  'delivery.retried',
  'deliveries.replayed',
  'encryption_key.rotated',
  'audit.pruned',
] as const satisfies (keyof ActionData)[]

/** Every action that is recorded. */
export const auditActions: readonly string[] = [
  ...eventKinds.filter((kind) => kind !== 'workflow'),
  ...otherActions,
].sort()

export type AuditAction = {
  [Name in (typeof otherActions)[number]]: {
    action: Name
    actor: Actor
    repositoryId: string | null
    data: ActionData[Name]
  }
}[keyof ActionData]

type Entry = { action: string; actor: Actor; repositoryId: string | null; data: object }

const maxRefsShown = 100

/** Records actions in the transaction that performs them. Call it last: like publishing, it locks the event counter. */
export async function recordActions(tx: Db, now: number, actions: AuditAction[]): Promise<void> {
  await lockNumbers(tx)
  await append(tx, now, actions)
}

/** Records events, except `workflow`: the state of a run changes without a user. */
export const recordEvents: Subscriber = (tx, now, events) => append(tx, now, toEntries(events))

async function append(tx: Db, now: number, entries: Entry[]): Promise<void> {
  if (entries.length === 0) return
  const { last, previousHash } = await takeNumbers(tx, entries.length)
  let previous = previousHash ?? noHash
  const rows: AuditRow[] = []
  for (const [index, { action, actor, repositoryId, data }] of entries.entries()) {
    const { via, address } = originOf(actor)
    const row = {
      seq: last - entries.length + 1 + index,
      createdAt: now,
      action,
      actorId: actor.id,
      actorUsername: actor.username,
      via,
      address,
      repositoryId,
      data: JSON.stringify(data),
    }
    previous = hashEntry(previous, row)
    rows.push({ ...row, hash: previous })
  }
  await insertEntries(tx, rows)
}

function originOf({ id, origin }: Actor): Origin {
  return origin ?? { via: id === 'local' ? 'cli' : 'server', address: null }
}

/** Converts events to entries. A push is one entry, with the first `maxRefsShown` of its refs. */
function toEntries(events: readonly Event[]): Entry[] {
  const entries: Entry[] = []
  let push: { pushId: string; refs: object[]; refCount: number } | undefined
  for (const { kind, actor, repositoryId, data } of events) {
    if (kind === 'workflow') continue
    if (kind !== 'push') {
      entries.push({ action: kind, actor, repositoryId, data })
      continue
    }
    const { pushId, via, repositoryName, ...update } = data
    if (push?.pushId !== pushId) {
      push = { pushId, refs: [], refCount: 0 }
      const shown = { ...push, isUndo: via === 'undo', repositoryName }
      push = Object.assign(shown, push)
      entries.push({ action: kind, actor, repositoryId, data: push })
    }
    push.refCount++
    if (push.refs.length < maxRefsShown) push.refs.push(update)
  }
  return entries
}
