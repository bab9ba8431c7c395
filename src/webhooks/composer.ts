import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { createSingleFlight } from '../concurrency/single-flight.ts'
import type { Database } from '../database/database.ts'
import type { EventData } from '../events/events.ts'
import { type PushedCommits, readHead, readPushedCommits } from '../git/objects/pushed-commits.ts'
import type { Git } from '../git/process/git-process.ts'
import { zeroId } from '../git/refs/ref-name.ts'
import { readRefs } from '../git/refs/refs.ts'
import type { About, Payload } from '../github-payloads/about.ts'
import type { CommitSummary } from '../github-payloads/commits.ts'
import { pingPayload } from '../github-payloads/ping-payload.ts'
import { toText } from '../github-payloads/to-text.ts'
import type { RunSummary } from '../github-payloads/told-run.ts'
import { readPayloadContext } from '../repositories/payload-context.ts'
import { findRepositorySummary } from '../repositories/repository-summary-store.ts'
import { findEvent, findPinged } from './delivery-subject-store.ts'
import { createMask, type Mask } from './mask.ts'
import { pushBody } from './push-body.ts'
import { workflowBody } from './workflow-body.ts'

/** What a delivery is about: of an event, its number and that of the one before which this webhook was told of. */
export type Composed = {
  id: string
  webhookId: string
  repositoryId: string
  event: string
  seq: number | null
  previousSeq: number | null
}

export type Composer = ReturnType<typeof createComposer>

/** Where it asks for what is told. */
export type ComposerSources = {
  /** Where the directory of a repository is. */
  pathOf: (repositoryId: string) => string
  /** What the API tells of a run in the state that an event tells of. */
  describeRun: (run: {
    repositoryId: string
    repositoryName: string
    actor: string
    data: EventData['workflow']
  }) => Promise<RunSummary>
  /** Opens the secrets of a repository: what nobody is told. */
  openSecrets: (repositoryId: string) => Promise<Record<string, string>>
  baseUrl: () => string
}

type Dependencies = ComposerSources & { db: Database; git: Git; clock: Clock; log: Log }

/** What all deliveries of one event have in common: the JSON of the body, and what `svc` says of the event. */
type Shared = { text: string; svc: Payload } | undefined

/** Whose event is told of, when it was, and what is not told. */
type Telling = { seq: number; about: About; at: number; mask: Mask }

// Several webhooks are told of one event, and several events of one push have the same commits. For so long a
// secret that was just saved may not be masked yet.
const sharedMs = 30_000
const sharedMaxLength = 16 * 1024 * 1024

/** Puts together what is sent to webhooks. */
export function createComposer(dependencies: Dependencies) {
  const { db, git, pathOf, describeRun, openSecrets, baseUrl, clock, log } = dependencies
  const limits = { maxLength: sharedMaxLength, ttlMs: sharedMs }
  const shareEvent = createSingleFlight<Shared>({
    ...limits,
    lengthOf: (it) => it?.text.length ?? 0,
  })
  const sharePushed = createSingleFlight<PushedCommits>({
    ...limits,
    lengthOf: ({ commits }) => commits.reduce((sum, { length }) => sum + length, 0),
  })
  const shareHead = createSingleFlight<CommitSummary | undefined>({
    ...limits,
    lengthOf: (head) => head?.message.length ?? 0,
  })

  async function tell(repositoryId: string, seq: number): Promise<Shared> {
    const row = await findEvent(db, repositoryId, seq)
    const place = row && (await findRepositorySummary(db, repositoryId))
    if (!place) return undefined
    const { actorUsername: sender, createdAt: at } = row
    const directory = pathOf(place.id)
    const about = await readPayloadContext(place, { directory, sender, baseUrl: baseUrl() })
    const telling = { seq, about, at, mask: await createMask(await openSecrets(place.id)) }
    const data: unknown = JSON.parse(row.data)
    // The kind of an event says what its data is.
    if (row.kind === 'push') return tellPush(data as EventData['push'], telling)
    if (row.kind === 'workflow') return tellWorkflow(data as EventData['workflow'], telling)
    return undefined
  }

  async function tellPush(update: EventData['push'], telling: Telling): Promise<Shared> {
    const { about, seq, mask, at } = telling
    const pushed = update.after === zeroId ? nothing : await readPushed(update, about)
    if (!pushed.isWhole && !pushed.head)
      log.warn({ seq, ref: update.ref }, 'a push is told of without its commits, which are gone')
    const text = toText(pushBody({ update, pushed }, { about, mask }))
    return {
      text,
      svc: { pushId: update.pushId, repositoryId: about.repository.id, createdAt: at },
    }
  }

  async function readPushed(update: EventData['push'], about: About): Promise<PushedCommits> {
    const { id, defaultBranch } = about.repository
    const { ref, before, after } = update
    const directory = pathOf(id)
    const known = before === zeroId ? await readTip(directory, ref, defaultBranch) : undefined
    const key = [id, before, after, known].join(' ')
    return sharePushed(key, () => readPushedCommits(git, directory, { before, after, known }))
  }

  // Of a new default branch itself everything is told.
  async function readTip(directory: string, ref: string, branch: string) {
    const full = `refs/heads/${branch}`
    if (ref === full) return undefined
    const tip = (await readRefs(directory, [full])).get(full)
    return tip === zeroId ? undefined : tip
  }

  async function tellWorkflow(data: EventData['workflow'], telling: Telling): Promise<Shared> {
    const { about, mask, at } = telling
    const { id: repositoryId, name: repositoryName } = about.repository
    const actor = about.sender
    const run = await describeRun({ repositoryId, repositoryName, actor, data })
    const head = await shareHead(`${repositoryId} ${run.commit}`, () =>
      readHead(git, pathOf(repositoryId), run.commit),
    )
    const text = toText(workflowBody({ action: data.action, run, head, at }, { about, mask }))
    return { text, svc: { action: data.action, repositoryId, createdAt: at } }
  }

  async function tellPing({ webhookId, repositoryId }: Composed): Promise<Shared> {
    const hook = await findPinged(db, webhookId)
    const place = hook && (await findRepositorySummary(db, repositoryId))
    if (!place) return undefined
    const sender = place.ownerUsername
    const directory = pathOf(repositoryId)
    const about = await readPayloadContext(place, { directory, sender, baseUrl: baseUrl() })
    const events = hook.events.split(' ')
    const payload = pingPayload({ ...hook, events, isEnabled: hook.isEnabled === 1 }, about)
    return { text: toText(payload), svc: { repositoryId, createdAt: clock.now() } }
  }

  return {
    /**
     * The JSON text to send; undefined when there is nothing to tell any more. Throws what passes, and Problems
     * when the secrets of the repository cannot be opened, as then nobody knows what not to tell.
     */
    async compose(delivery: Composed): Promise<string | undefined> {
      const { id, webhookId, repositoryId, event, seq, previousSeq } = delivery
      const shared =
        seq === null
          ? await tellPing(delivery)
          : await shareEvent(`${repositoryId} ${seq}`, () => tell(repositoryId, seq))
      if (!shared) return undefined
      const svc = { delivery: id, webhook: webhookId, event, seq, previousSeq, ...shared.svc }
      return `${shared.text.slice(0, -1)},"svc":${toText(svc)}}`
    },
  }
}

const nothing: PushedCommits = { commits: [], head: undefined, branches: [], isWhole: true }
