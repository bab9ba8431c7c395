import type { Clock } from '#base/clock.ts'
import { createResultCache } from '#base/concurrency/result-cache.ts'
import type { Log } from '#base/log.ts'
import type { Database } from '#database/database.ts'
import type { DeliveryRow } from '#database/schema.ts'
import { findEvent } from '#events/event-store.ts'
import type { EventData } from '#events/events.ts'
import type { About, Payload } from '#events/github-payloads/about.ts'
import { toPayloadCommit } from '#events/github-payloads/commits.ts'
import { fitNewest } from '#events/github-payloads/fit-newest.ts'
import { namespacePing, pingPayload } from '#events/github-payloads/ping-payload.ts'
import { pushPayload } from '#events/github-payloads/push-payload.ts'
import type { RunSummary } from '#events/github-payloads/reported-run.ts'
import { toText } from '#events/github-payloads/to-text.ts'
import type { CommitSummary } from '#git/objects/commit-object.ts'
import { type PushedCommits, readHead, readPushedCommits } from '#git/objects/pushed-commits.ts'
import type { Git } from '#git/process/git-process.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { readRefs } from '#git/refs/refs.ts'
import { readPayloadContext } from '#repositories/payload-context.ts'
import { findRepositorySummary } from '#repositories/repository-summary-store.ts'
import { findScope } from '#repositories/scope-store.ts'
import { findPinged } from '../webhook-store.ts'
import { byteLength, sharedMaxBytes } from './body-size.ts'
import { createMask, type Mask, maskCommit } from './mask.ts'
import { workflowBody } from './workflow-body.ts'

/** A delivery, with the sequence numbers of its event and of the previous event for its webhook; null for a ping. */
export type DeliverySubject = Pick<
  DeliveryRow,
  'id' | 'webhookId' | 'repositoryId' | 'event' | 'seq' | 'previousSeq'
>

/** Composes the bodies of webhook deliveries. */
export type Composer = {
  /**
   * Returns the JSON text to send; undefined when the event or webhook no longer exists. Throws transient errors, and
   * Problems when the secrets of the repository cannot be opened, since they could not be masked.
   */
  compose: (delivery: DeliverySubject) => Promise<string | undefined>
}

export type ComposerSources = {
  /** The directory of a repository. */
  directoryOf: (repositoryId: string) => Promise<string>
  /** The run as the API describes it, in the state of an event. */
  describeRun: (run: {
    repositoryId: string
    repositoryName: string
    actor: string
    data: EventData['workflow']
  }) => Promise<RunSummary>
  /** The secrets of a repository, which are masked. */
  openSecrets: (repositoryId: string) => Promise<Record<string, string>>
  baseUrl: () => string
}

type Dependencies = ComposerSources & { db: Database; git: Git; clock: Clock; log: Log }

/** What all deliveries of an event have in common: the JSON of the body, and the event's part of `svc`. */
type EventBody = { text: string; svc: Payload } | undefined

type EventContext = { seq: number; about: About; at: number; mask: Mask }

// The webhooks of a repository share the body of an event, and the events of a push share its commits. A secret saved
// within this time may not be masked yet.
const maxCacheAgeMs = 30_000
const maxCacheLength = 16 * 1024 * 1024

export function createComposer(dependencies: Dependencies): Composer {
  const { db, git, directoryOf, describeRun, openSecrets, baseUrl, clock, log } = dependencies
  const limits = { maxLength: maxCacheLength, maxAgeMs: maxCacheAgeMs }
  const shareEvent = createResultCache<EventBody>({
    ...limits,
    lengthOf: (it) => it?.text.length ?? 0,
  })
  const sharePushed = createResultCache<PushedCommits>({
    ...limits,
    lengthOf: ({ commits }) => commits.reduce((sum, { length }) => sum + length, 0),
  })
  const shareHead = createResultCache<CommitSummary | undefined>({
    ...limits,
    lengthOf: (head) => head?.message.length ?? 0,
  })

  async function composeEvent(repositoryId: string, seq: number): Promise<EventBody> {
    const row = await findEvent(db, repositoryId, seq)
    const repository = row && (await findRepositorySummary(db, repositoryId))
    if (!repository) return undefined
    const { actorUsername: sender, createdAt: at } = row
    const directory = await directoryOf(repository.id)
    const about = await readPayloadContext(repository, { directory, sender, baseUrl: baseUrl() })
    const context = { seq, about, at, mask: createMask(await openSecrets(repository.id)) }
    const data: unknown = JSON.parse(row.data)
    // The kind of an event determines the type of its data.
    if (row.kind === 'push') return composePush(data as EventData['push'], context)
    if (row.kind === 'workflow') return composeWorkflow(data as EventData['workflow'], context)
    return undefined
  }

  async function composePush(update: EventData['push'], context: EventContext): Promise<EventBody> {
    const { about, seq, mask, at } = context
    const pushed = update.after === zeroId ? nothing : await readPushed(update, about)
    if (!pushed.isComplete && !pushed.head)
      log.warn(
        { seq, ref: update.ref },
        'push delivered without its commits, which no longer exist',
      )
    const text = toText(pushBody({ update, pushed }, { about, mask }))
    return {
      text,
      svc: { pushId: update.pushId, repositoryId: about.repository.id, createdAt: at },
    }
  }

  async function readPushed(update: EventData['push'], about: About): Promise<PushedCommits> {
    const { id, defaultBranch } = about.repository
    const { ref, before, after } = update
    const directory = await directoryOf(id)
    const known = before === zeroId ? await readTip(directory, ref, defaultBranch) : undefined
    const key = [id, before, after, known].join(' ')
    return sharePushed(key, () => readPushedCommits(git, directory, { before, after, known }))
  }

  // The first push of the default branch includes all its commits.
  async function readTip(directory: string, ref: string, branch: string) {
    const full = `refs/heads/${branch}`
    if (ref === full) return undefined
    const tip = (await readRefs(directory, [full])).get(full)
    return tip === zeroId ? undefined : tip
  }

  async function composeWorkflow(
    data: EventData['workflow'],
    context: EventContext,
  ): Promise<EventBody> {
    const { about, mask, at } = context
    const { id: repositoryId, name: repositoryName } = about.repository
    const actor = about.sender
    const run = await describeRun({ repositoryId, repositoryName, actor, data })
    const head = await shareHead(`${repositoryId} ${run.commit}`, async () =>
      readHead(git, await directoryOf(repositoryId), run.commit),
    )
    const text = toText(workflowBody({ action: data.action, run, head, at }, { about, mask }))
    return { text, svc: { action: data.action, repositoryId, createdAt: at } }
  }

  async function composePing({ webhookId, repositoryId }: DeliverySubject): Promise<EventBody> {
    const row = await findPinged(db, webhookId)
    if (!row) return undefined
    const hook = { ...row, events: row.events.split(' '), isEnabled: row.isEnabled === 1 }
    const scope = await findScope(db, repositoryId)
    if (scope?.kind === 'namespace') {
      const { id: namespaceId, name } = scope
      const text = toText(namespacePing(hook, { name, baseUrl: baseUrl() }))
      return { text, svc: { namespaceId, createdAt: clock.now() } }
    }
    const repository = await findRepositorySummary(db, repositoryId)
    if (!repository) return undefined
    const sender = repository.ownerUsername
    const directory = await directoryOf(repositoryId)
    const about = await readPayloadContext(repository, { directory, sender, baseUrl: baseUrl() })
    return { text: toText(pingPayload(hook, about)), svc: { repositoryId, createdAt: clock.now() } }
  }

  return {
    async compose(delivery) {
      const { id, webhookId, repositoryId, event, seq, previousSeq } = delivery
      const body =
        seq === null
          ? await composePing(delivery)
          : await shareEvent(`${repositoryId} ${seq}`, () => composeEvent(repositoryId, seq))
      if (!body) return undefined
      const svc = { delivery: id, webhook: webhookId, event, seq, previousSeq, ...body.svc }
      return `${body.text.slice(0, -1)},"svc":${toText(svc)}}`
    },
  }
}

const nothing: PushedCommits = { commits: [], head: undefined, branches: [], isComplete: true }

const noFiles = { added: [], removed: [], modified: [] }

/** The body of a push without `svc`. Commits that do not fit are dropped, the oldest first. */
function pushBody(
  { update, pushed }: { update: EventData['push']; pushed: PushedCommits },
  { about, mask }: { about: About; mask: Mask },
): Payload {
  const head = pushed.head && maskCommit(pushed.head, mask)
  const baseRef = baseOf(pushed.branches, update.ref, about.repository.defaultBranch)
  const payload = pushPayload(update, { commits: [], head, baseRef }, about)
  const commits = pushed.commits.map((commit) => {
    const masked = commit === pushed.head && head ? head : maskCommit(commit, mask)
    return {
      full: toPayloadCommit(masked, about),
      short: toPayloadCommit({ ...masked, files: noFiles }, about),
    }
  })
  const { items, isComplete } = fitNewest(commits, sharedMaxBytes - byteLength(payload))
  return { ...payload, commits: items, truncated: !(pushed.isComplete && isComplete) }
}

// The branch that a new ref was most likely created from.
function baseOf(branches: string[], ref: string, defaultBranch: string): string | undefined {
  const others = branches.filter((branch) => branch !== ref).sort()
  const defaultRef = `refs/heads/${defaultBranch}`
  return others.includes(defaultRef) ? defaultRef : others[0]
}
