import { stat } from 'node:fs/promises'
import type { Writable } from 'node:stream'
import type { Principal } from '../access/principal.ts'
import type { Log } from '../base/log.ts'
import { Problem } from '../base/problem.ts'
import type { FreeSpace } from '../config/free-space.ts'
import type { PlainSettings } from '../config/settings.ts'
import type { Door } from '../database/schema.ts'
import { readArchiveRequest } from '../git/archive-request.ts'
import { type Body, bodyOf, collect, limited } from '../git/body.ts'
import { gitCommands } from '../git/commands.ts'
import type { Git, GitProcess } from '../git/git-process.ts'
import { answerHook } from '../git/hook-channel.ts'
import { firstPacket, flushPacket, type Packet, packet } from '../git/pkt-line.ts'
import { readPushRequest } from '../git/push-commands.ts'
import { capabilitiesIn, pushOffer } from '../git/push-offer.ts'
import { assertRepository } from '../git/refs.ts'
import { malformedRequest, requestsIn } from '../git/requests.ts'
import { converse } from '../git/rpc.ts'
import { deadline, watchStall } from '../git/stall.ts'
import { createTurns } from '../git/turns.ts'
import type { Repository } from '../repositories/repositories.ts'
import type { Tidying } from '../repositories/tidying.ts'
import type { GitTurns } from './git-turns.ts'
import { createMeasure, type Operation } from './operations.ts'
import type { Push, Pushes } from './pushes.ts'

export type GitEngine = ReturnType<typeof createGitEngine>

export type Service = 'git-upload-pack' | 'git-receive-pack'

type Dependencies = {
  git: Git
  pushes: Pick<Pushes, 'judge' | 'finish'>
  /** Which way its clients come. */
  door: Door
  tidying: Pick<Tidying, 'enter'>
  turns: GitTurns
  freeSpace: FreeSpace
  settings: PlainSettings
  log: Log
  /** Called when an operation has ended. */
  onOperation: (operation: Operation) => void
}

/** Where an answer goes, over either door. Whoever asked for it ends it. */
export type Answer = {
  output: Writable
  /** Called before the first byte of output, or when there is none. */
  begin: () => void
  hasBegun: () => boolean
  /** Called when all of a push's answer is said; git may take a moment more to end. */
  onSaid: () => void
}

/** Git's exit code; null when it was killed, and has not said all that it had to say. */
export type Outcome = number | null

/** A Git request whose principal and repository are known. */
export type GitRequest = {
  principal: Principal
  repository: Repository
  /** Version of Git's protocol that the client asks for: `version=1`, `version=2` or nothing. */
  protocol: string
  answer: Answer
  /** Whether the client has more to send, and git would take it. */
  isReceiving: () => boolean
  /** Whether the client reads an answer only after it has sent all: then the rest of a request is read and dropped. */
  sendsAllFirst: boolean
  /** Aborted when the client is gone. */
  signal: AbortSignal
}

type Talk = {
  child: GitProcess
  input: Body
  /** What the answer begins with, before git's own output. */
  heading?: Buffer | undefined
  onSaid?: () => void
}

/**
 * What Git's smart protocol does with a repository that was opened, whichever way its client came:
 * https://git-scm.com/docs/pack-protocol and https://git-scm.com/docs/protocol-v2
 */
export function createGitEngine(dependencies: Dependencies) {
  const { git, pushes, door, tidying, turns, freeSpace } = dependencies
  const { settings, log, onOperation } = dependencies
  const stallMs = settings.gitStallSeconds * 1000
  const readingTurns = createTurns({ overall: 64, perKey: 16, waiting: 1000, waitMs: stallMs })
  // What a server offers in version 2 does not depend on the repository, so it is asked for once.
  let versionTwoOffer: Promise<string> | undefined
  // The same for what it can do with a push.
  let pushCapabilities: Promise<string> | undefined
  const measure = createMeasure(onOperation)

  const answerList = measure('list', answerCommand)

  const answerPack = measure('fetch', async (watched: ReturnType<typeof watch>, input: Buffer) => {
    using _turn = await turns.fetch.take(keysOf(watched), watched.signal)
    return await answerCommand(watched, input)
  })

  const engine = {
    /** What a fetch begins with in version 2: the server's capabilities. */
    async offerFetch({ path }: Repository): Promise<Buffer> {
      // Told here, it is shown to the user; git says nothing of why a later request fails.
      await assertRepository(path)
      versionTwoOffer ??= git
        .run(gitCommands.advertiseFetch(path), { protocol: 'version=2' })
        .catch(async (error) => {
          versionTwoOffer = undefined
          await assertRepository(path)
          throw error
        })
      return Buffer.from(await versionTwoOffer)
    },

    /** What a push begins with: all refs, and the server's capabilities. Undefined where git must say it. */
    async offerPush({ path }: Repository, protocol: string): Promise<Buffer | undefined> {
      await assertRepository(path)
      // Told before the client sends anything.
      await freeSpace.require()
      if (protocol === 'version=1') return undefined
      pushCapabilities ??= git
        .run(gitCommands.advertisePush(path))
        .then(capabilitiesIn)
        .catch(async (error) => {
          pushCapabilities = undefined
          await assertRepository(path)
          throw error
        })
      return pushOffer(path, await pushCapabilities)
    },

    /** Has git say what a fetch or a push begins with. */
    async advertise(service: Service, request: GitRequest, heading?: Buffer): Promise<Outcome> {
      const { path } = request.repository
      await assertRepository(path)
      using watched = watch(request)
      const command =
        service === 'git-upload-pack' ? gitCommands.advertiseFetch : gitCommands.advertisePush
      await using child = git.start(command(path), request)
      return await talk(watched, { child, input: bodyOf(), heading })
    },

    /** Answers one command of a fetch, clone or ls-remote that is whole in itself. */
    async fetch(request: GitRequest, body: Body): Promise<Outcome> {
      using watched = watch(request)
      return await answerFetch(watched, await readFetch(watched, body))
    },

    /** Answers the commands of a client of version 2 one after another, until it ends. */
    async fetchEach(request: GitRequest, body: Body): Promise<Outcome> {
      using watched = watch(request)
      const input = limited(body, { ...watched, maxBytes: Number.POSITIVE_INFINITY })
      for await (const command of requestsIn(input, settings.fetchRequestMaxBytes)) {
        const outcome = await answerFetch(watched, command)
        if (outcome !== 0) return outcome
      }
      return 0
    },

    /** Answers a request for the files of a commit: git-upload-archive(1). */
    async archive(request: GitRequest, body: Body): Promise<Outcome> {
      const { path } = request.repository
      await assertRepository(path)
      using watched = watch(request)
      const maxBytes = settings.fetchRequestMaxBytes
      const input = await readArchiveRequest(limited(body, { ...watched, maxBytes }), maxBytes)
      using _turn = await turns.fetch.take(keysOf(request), watched.signal)
      await using child = git.start(gitCommands.archive(path), request)
      return await talk(watched, { child, input: bodyOf(input) })
    },

    /** Has git talk with a client from beginning to end, as a fetch before version 2 needs it. */
    async fetchSession(request: GitRequest, body: Body): Promise<Outcome> {
      const { path } = request.repository
      await assertRepository(path)
      using watched = watch(request)
      using _turn = await turns.fetch.take(keysOf(request), watched.signal)
      await using child = git.start(gitCommands.fetchSession(path), request)
      const maxBytes = settings.fetchRequestMaxBytes
      return await talk(watched, { child, input: limited(body, { ...watched, maxBytes }) })
    },

    /**
     * Answers a push, judged when git's hook asks and finished when git has ended. With `mayBeEmpty` a
     * request that changes nothing is answered with nothing.
     */
    async push(request: GitRequest, body: Body, mayBeEmpty: boolean): Promise<Outcome> {
      const { repository, principal, answer } = request
      await freeSpace.require()
      using watched = watch(request)
      using _turn = await turns.push.take(keysOf(request), watched.signal)
      const { updates, capabilities, whole, refusal } = await readPushRequest(
        limited(body, { ...watched, maxBytes: settings.pushMaxBytes }),
        settings.pushMaxRefs,
      )
      if (refusal) return refuse(request, { whole, capabilities, refusal })
      if (mayBeEmpty && updates.length === 0) return answerEmpty(answer)
      await using visit = await tidying.enter(repository.id)
      await using child = git.startPush(repository.path, request)
      visit.watch(child.ended)
      const push: Push = { principal, repository, door }
      const judged = answerHook(child.channel, updates, (asked) => pushes.judge(push, asked)).catch(
        (error) => log.error({ err: error }, 'a push could not be judged'),
      )
      try {
        // The intent is on record, so the client need not wait for the events.
        return await talk(watched, { child, input: whole, onSaid: answer.onSaid })
      } finally {
        // A client that has gone does not stop a push that was allowed: git is given the time to end it.
        if (push.id === undefined) await child[Symbol.asyncDispose]()
        await child.ended
        await judged
        await pushes.finish(push)
      }
    },
  }

  return {
    ...engine,
    offerFetch: measure('offer', engine.offerFetch),
    offerPush: measure('offer', engine.offerPush),
    advertise: measure('offer', engine.advertise),
    archive: measure('archive', engine.archive),
    fetchSession: measure('fetch', engine.fetchSession),
    push: measure('push', engine.push),
  }

  async function answerFetch(watched: ReturnType<typeof watch>, input: Buffer): Promise<Outcome> {
    const first = firstPacket(input)
    if (typeof first !== 'object') throw malformedRequest()
    if (first.packet.kind === 'flush') return answerEmpty(watched.answer)
    return isListing(first.packet) ? answerList(watched, input) : answerPack(watched, input)
  }

  async function answerCommand(watched: ReturnType<typeof watch>, input: Buffer): Promise<Outcome> {
    await using child = git.start(gitCommands.fetch(watched.repository.path), watched)
    return await talk(watched, { child, input: bodyOf(input) })
  }

  // Read to its end before it takes a turn: whoever sends slowly takes nobody else's.
  async function readFetch(watched: ReturnType<typeof watch>, body: Body): Promise<Buffer> {
    using late = deadline(settings.bodySeconds * 1000)
    const signal = AbortSignal.any([watched.signal, late.signal])
    using _turn = await readingTurns.take([watched.principal.id], signal)
    const maxBytes = settings.fetchRequestMaxBytes
    return collect(limited(body, { ...watched, maxBytes, signal }))
  }

  /** A request with a signal that is aborted, too, when its client neither sends nor reads. */
  function watch(request: GitRequest) {
    const { answer, isReceiving } = request
    const stall = watchStall(stallMs, () => isReceiving() || answer.output.writableNeedDrain)
    return {
      ...request,
      signal: AbortSignal.any([request.signal, stall.signal]),
      onProgress: stall.progress,
      [Symbol.dispose]: () => stall[Symbol.dispose](),
    }
  }

  async function talk(
    { answer, repository, signal, onProgress, sendsAllFirst }: ReturnType<typeof watch>,
    { child, input, heading, onSaid }: Talk,
  ): Promise<Outcome> {
    const onBegin = () => {
      answer.begin()
      if (heading) answer.output.write(heading)
    }
    const { output } = answer
    const { exitCode, complaint } = await converse(child, {
      input,
      output,
      sendsAllFirst,
      signal,
      onBegin,
      onProgress,
      onSaid,
    })
    if (exitCode !== 0) log.warn({ repositoryId: repository.id, exitCode, complaint }, 'git failed')
    if (!answer.hasBegun() && exitCode === 0) onBegin()
    if (answer.hasBegun()) return exitCode
    await stat(repository.path).catch(() => {
      throw new Problem('repository_not_found', `The repository "${repository.name}" is gone.`)
    })
    await assertRepository(repository.path)
    throw malformedRequest()
  }
}

/** The protocol version in what a client asks for, if it is one that Git has; anything else is not passed on. */
export function protocolIn(asked: string): string {
  const [wanted = ''] = asked.split(':')
  return /^version=[012]$/.test(wanted) ? wanted : ''
}

function keysOf({ repository, principal }: GitRequest): string[] {
  return [repository.id, principal.id]
}

function isListing(first: Packet): boolean {
  return first.kind === 'data' && /^command=ls-refs\n?$/.test(first.payload.toString())
}

// Told as Git's own fatal errors are (pack-protocol, "side-band"), which its client shows; older ones get the status.
async function refuse(
  { answer, sendsAllFirst }: GitRequest,
  { whole, capabilities, refusal }: { whole: Body; capabilities: Set<string>; refusal: Problem },
): Promise<Outcome> {
  if (!capabilities.has('side-band-64k')) throw refusal
  if (sendsAllFirst) {
    for await (const _ of whole) {
    }
  }
  answer.begin()
  answer.output.write(Buffer.concat([packet(`\x03${refusal.message}`), flushPacket]))
  return 1
}

function answerEmpty(answer: Answer): Outcome {
  answer.begin()
  return 0
}
