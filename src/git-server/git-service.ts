import { stat } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { availableParallelism } from 'node:os'
import type { Principal } from '../access/principal.ts'
import type { Log } from '../base/log.ts'
import { Problem } from '../base/problem.ts'
import type { Settings } from '../config/settings.ts'
import { type Body, bodyOf, collect, readBody } from '../git/body.ts'
import { gitCommands } from '../git/commands.ts'
import type { Git, GitProcess } from '../git/git-process.ts'
import { answerHook } from '../git/hook-channel.ts'
import { firstPacket, flushPacket, type Packet, packet } from '../git/pkt-line.ts'
import { readPushRequest } from '../git/push-commands.ts'
import { capabilitiesIn, pushOffer } from '../git/push-offer.ts'
import { assertRepository, type RefUpdate } from '../git/refs.ts'
import { converse } from '../git/rpc.ts'
import { deadline, watchStall } from '../git/stall.ts'
import { createTurns } from '../git/turns.ts'
import type { Repository } from '../repositories/repositories.ts'
import type { Push, Pushes } from './pushes.ts'
import type { Tidying } from './tidying.ts'

export type GitService = ReturnType<typeof createGitService>

export type Service = 'git-upload-pack' | 'git-receive-pack'

const fetchesPerCore = 4

type Dependencies = { git: Git; pushes: Pushes; tidying: Tidying; settings: Settings; log: Log }

/** One request of Git's HTTP protocol, after its principal and repository are known. */
export type GitRequest = {
  request: IncomingMessage
  response: ServerResponse
  principal: Principal
  repository: Repository
  /** Aborted when the client is gone. */
  signal: AbortSignal
}

type Talk = {
  child: GitProcess
  input: Body
  contentType: string
  /** What the answer begins with, before git's own output. */
  heading?: Buffer
  onSaid?: () => void
}

/**
 * Git's smart HTTP protocol for repositories that were opened:
 * https://git-scm.com/docs/http-protocol and https://git-scm.com/docs/protocol-v2
 */
export function createGitService({ git, pushes, tidying, settings, log }: Dependencies) {
  const stallMs = settings.gitStallSeconds * 1000
  const queue = { waiting: settings.gitWaiting, waitMs: settings.gitWaitSeconds * 1000 }
  const fetchTurns = createTurns({
    overall: settings.fetchesAtOnce ?? fetchesPerCore * availableParallelism(),
    perKey: settings.repositoryFetchesAtOnce,
    ...queue,
  })
  const pushTurns = createTurns({
    overall: settings.pushesAtOnce,
    perKey: settings.repositoryPushesAtOnce,
    ...queue,
  })
  const readingTurns = createTurns({ overall: 64, perKey: 16, waiting: 1000, waitMs: stallMs })
  // What a server offers in version 2 does not depend on the repository, so it is asked for once.
  let versionTwoOffer: Promise<string> | undefined
  // The same for what it can do with a push.
  let pushCapabilities: Promise<string> | undefined

  return {
    /** Answers `GET info/refs`: what the service offers and, before version 2, all refs. */
    async advertise(service: Service, asked: GitRequest): Promise<void> {
      const { request, response, repository } = asked
      const protocol = protocolOf(request)
      const contentType = `application/x-${service}-advertisement`
      // Told here, it is shown to the user; git says nothing of why a later request fails.
      await assertRepository(repository.path)
      if (service === 'git-upload-pack' && protocol === 'version=2') {
        const offer = await offerVersionTwo(repository)
        begin(response, contentType)
        response.end(offer)
        return
      }
      const heading = Buffer.concat([packet(`# service=${service}\n`), flushPacket])
      const offer = service === 'git-receive-pack' && (await offerPush(repository, protocol))
      if (offer) {
        begin(response, contentType)
        response.end(Buffer.concat([heading, offer]))
        return
      }
      const command =
        service === 'git-upload-pack' ? gitCommands.advertiseFetch : gitCommands.advertisePush
      using watched = watch(asked)
      await using child = git.start(command(repository.path), { protocol })
      await talk(watched, { child, input: bodyOf(), contentType, heading })
    },

    /** Answers `POST git-upload-pack`: one command of a fetch, clone or ls-remote. */
    async fetch(asked: GitRequest): Promise<void> {
      const { request, response, repository } = asked
      const contentType = 'application/x-git-upload-pack-result'
      using watched = watch(asked)
      const input = await readFetch(watched)
      const first = firstPacket(input)
      if (typeof first !== 'object') throw malformedRequest()
      if (first.packet.kind === 'flush') return answerEmpty(response, contentType)
      using _turn = isListing(first.packet)
        ? undefined
        : await fetchTurns.take(keysOf(asked), watched.signal)
      const protocol = protocolOf(request)
      await using child = git.start(gitCommands.fetch(repository.path), { protocol })
      await talk(watched, { child, input: bodyOf(input), contentType })
    },

    /** Answers `POST git-receive-pack`: a push, judged when git's hook asks and finished when git has ended. */
    async push(asked: GitRequest): Promise<void> {
      const { request, response, repository, principal } = asked
      const contentType = 'application/x-git-receive-pack-result'
      using watched = watch(asked)
      using _turn = await pushTurns.take(keysOf(asked), watched.signal)
      const body = readBody(request, { maxBytes: settings.pushMaxBytes, ...watched })
      const { updates, capabilities, whole, refusal } = await readPushRequest(
        body,
        settings.pushMaxRefs,
      )
      if (refusal) return refuse(response, contentType, { whole, capabilities, refusal })
      if (isProbe(request, updates)) {
        await collect(whole)
        return answerEmpty(response, contentType)
      }
      await using visit = await tidying.enter(repository.id)
      const protocol = protocolOf(request)
      await using child = git.startPush(repository.path, { protocol })
      visit.watch(child.ended)
      const push: Push = { principal, repository }
      const judged = answerHook(child.channel, updates, (asked) => pushes.judge(push, asked)).catch(
        (error) => log.error({ err: error }, 'a push could not be judged'),
      )
      try {
        // The intent is on record, so the client need not wait for the events.
        const onSaid = () => response.headersSent && response.end()
        await talk(watched, { child, input: whole, contentType, onSaid })
      } finally {
        // A client that has gone does not stop a push that was allowed: git is given the time to end it.
        if (push.id === undefined) await child[Symbol.asyncDispose]()
        await child.ended
        await judged
        await pushes.finish(push)
      }
    },
  }

  // Read to its end before it takes a turn: whoever sends slowly takes nobody else's.
  async function readFetch(watched: ReturnType<typeof watch>): Promise<Buffer> {
    const { request, principal } = watched
    using late = deadline(settings.bodySeconds * 1000)
    const signal = AbortSignal.any([watched.signal, late.signal])
    using _turn = await readingTurns.take([principal.id], signal)
    const maxBytes = settings.fetchRequestMaxBytes
    return collect(readBody(request, { ...watched, maxBytes, signal }))
  }

  function offerVersionTwo(repository: Repository): Promise<string> {
    versionTwoOffer ??= git
      .run(gitCommands.advertiseFetch(repository.path), { protocol: 'version=2' })
      .catch(async (error) => {
        versionTwoOffer = undefined
        await assertRepository(repository.path)
        throw error
      })
    return versionTwoOffer
  }

  // Undefined where git does it better, or differently.
  async function offerPush(repository: Repository, protocol: string): Promise<Buffer | undefined> {
    if (protocol === 'version=1') return undefined
    pushCapabilities ??= git
      .run(gitCommands.advertisePush(repository.path))
      .then(capabilitiesIn)
      .catch(async (error) => {
        pushCapabilities = undefined
        await assertRepository(repository.path)
        throw error
      })
    return pushOffer(repository.path, await pushCapabilities)
  }

  /** A request with a signal that is aborted, too, when its client neither sends nor reads. */
  function watch(asked: GitRequest) {
    const { request, response } = asked
    const stall = watchStall(stallMs, () => !request.complete || response.writableNeedDrain)
    return {
      ...asked,
      signal: AbortSignal.any([asked.signal, stall.signal]),
      onProgress: stall.progress,
      [Symbol.dispose]: () => stall[Symbol.dispose](),
    }
  }

  async function talk(
    { response, repository, signal, onProgress }: ReturnType<typeof watch>,
    { child, input, contentType, heading, onSaid }: Talk,
  ): Promise<void> {
    const onBegin = () => {
      begin(response, contentType)
      if (heading) response.write(heading)
    }
    const { exitCode, complaint } = await converse(child, {
      input,
      output: response,
      signal,
      onBegin,
      onProgress,
      onSaid,
    })
    if (exitCode !== 0) log.warn({ repositoryId: repository.id, exitCode, complaint }, 'git failed')
    if (!response.headersSent && exitCode === 0) onBegin()
    if (response.headersSent) {
      // A git that was killed has not said all that it had to say.
      if (exitCode === null) response.destroy()
      else response.end()
      return
    }
    await stat(repository.path).catch(() => {
      throw new Problem('repository_not_found', `The repository "${repository.name}" is gone.`)
    })
    await assertRepository(repository.path)
    throw malformedRequest()
  }
}

function malformedRequest(): Problem {
  return new Problem('malformed_git_request', "The request is not one of Git's protocol.")
}

/** The protocol version that a client asks for, if it is one that Git has; anything else is not passed on. */
function protocolOf({ headers }: IncomingMessage): string {
  const [wanted = ''] = String(headers['git-protocol'] ?? '').split(':')
  return /^version=[012]$/.test(wanted) ? wanted : ''
}

function keysOf({ repository, principal }: GitRequest): string[] {
  return [repository.id, principal.id]
}

function isListing(first: Packet): boolean {
  return first.kind === 'data' && /^command=ls-refs\n?$/.test(first.payload.toString())
}

// Git asks with an empty request whether a long one would be let in: remote-curl.c, probe_rpc.
function isProbe(request: IncomingMessage, updates: RefUpdate[]): boolean {
  return updates.length === 0 && request.headers['content-length'] === String(flushPacket.length)
}

// Told as Git's own fatal errors are (pack-protocol, "side-band"), which its client shows; older ones get the status.
async function refuse(
  response: ServerResponse,
  contentType: string,
  { whole, capabilities, refusal }: { whole: Body; capabilities: Set<string>; refusal: Problem },
): Promise<void> {
  if (!capabilities.has('side-band-64k')) throw refusal
  // A client reads only after it has sent everything.
  for await (const _ of whole) {
  }
  begin(response, contentType)
  response.end(Buffer.concat([packet(`\x03${refusal.message}`), flushPacket]))
}

function answerEmpty(response: ServerResponse, contentType: string): void {
  begin(response, contentType)
  response.end()
}

function begin(response: ServerResponse, contentType: string): void {
  response.setHeader('content-type', contentType)
  response.setHeader('cache-control', 'no-cache, max-age=0, must-revalidate')
  response.writeHead(200)
}
