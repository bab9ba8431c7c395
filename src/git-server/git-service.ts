import { stat } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { availableParallelism } from 'node:os'
import type { Principal } from '../access/principal.ts'
import type { Log } from '../base/log.ts'
import { Problem } from '../base/problem.ts'
import type { Settings } from '../config/settings.ts'
import { type Body, peekPacket, readBody } from '../git/body.ts'
import { gitCommands } from '../git/commands.ts'
import type { Git, GitProcess } from '../git/git-process.ts'
import { answerHook } from '../git/hook-channel.ts'
import { flushPacket, packet } from '../git/pkt-line.ts'
import { converse } from '../git/rpc.ts'
import { watchStall } from '../git/stall.ts'
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
}

/**
 * Git's smart HTTP protocol for repositories that were opened:
 * https://git-scm.com/docs/http-protocol and https://git-scm.com/docs/protocol-v2
 */
export function createGitService({ git, pushes, tidying, settings, log }: Dependencies) {
  const stallMs = settings.gitStallSeconds * 1000
  const turns = createTurns({
    overall: settings.fetchesAtOnce ?? fetchesPerCore * availableParallelism(),
    perKey: settings.repositoryFetchesAtOnce,
    waiting: settings.fetchesWaiting,
    waitMs: settings.fetchWaitSeconds * 1000,
  })
  // What a server offers in version 2 does not depend on the repository, so it is asked for once.
  let versionTwoOffer: Promise<string> | undefined

  return {
    /** Answers `GET info/refs`: what the service offers and, before version 2, all refs. */
    async advertise(service: Service, asked: GitRequest): Promise<void> {
      const { request, response, repository } = asked
      const protocol = protocolOf(request)
      const contentType = `application/x-${service}-advertisement`
      if (service === 'git-upload-pack' && protocol === 'version=2') {
        const offer = await offerVersionTwo(repository)
        begin(response, contentType)
        response.end(offer)
        return
      }
      const command =
        service === 'git-upload-pack' ? gitCommands.advertiseFetch : gitCommands.advertisePush
      using watched = watch(asked)
      await using child = git.start(command(repository.path), { protocol })
      const heading = Buffer.concat([packet(`# service=${service}\n`), flushPacket])
      await talk(watched, { child, input: nothing(), contentType, heading })
      response.end()
    },

    /** Answers `POST git-upload-pack`: one command of a fetch, clone or ls-remote. */
    async fetch(asked: GitRequest): Promise<void> {
      const { request, response, repository } = asked
      const contentType = 'application/x-git-upload-pack-result'
      using watched = watch(asked)
      const body = readBody(request, { maxBytes: settings.fetchRequestMaxBytes, ...watched })
      const { first, whole: input } = await peekPacket(body)
      if (isProbe(request, first.kind)) return answerEmpty(response, contentType)
      const isListing =
        first.kind === 'data' && /^command=ls-refs\n?$/.test(first.payload.toString())
      using _turn = isListing ? undefined : await turns.take(repository.id, watched.signal)
      const protocol = protocolOf(request)
      await using child = git.start(gitCommands.fetch(repository.path), { protocol })
      await talk(watched, { child, input, contentType })
      response.end()
    },

    /** Answers `POST git-receive-pack`: a push, judged when git's hook asks and finished before the answer ends. */
    async push(asked: GitRequest): Promise<void> {
      const { request, response, repository, principal } = asked
      const contentType = 'application/x-git-receive-pack-result'
      using watched = watch(asked)
      const body = readBody(request, { maxBytes: settings.pushMaxBytes, ...watched })
      const { first, whole: input } = await peekPacket(body)
      if (isProbe(request, first.kind)) return answerEmpty(response, contentType)
      await using visit = await tidying.enter(repository.id)
      const protocol = protocolOf(request)
      await using child = git.start(gitCommands.push(repository.path), {
        protocol,
        channel: true,
      })
      visit.watch(child.ended)
      const push: Push = { principal, repository }
      const judged = answerHook(child.channel, settings.pushMaxRefs, (updates) =>
        pushes.judge(push, updates),
      ).catch((error) => log.error({ err: error }, 'a push could not be judged'))
      try {
        await talk(watched, { child, input, contentType })
      } finally {
        // A client that has gone does not stop a push that was allowed: git is given the time to end it.
        if (push.id === undefined) await child[Symbol.asyncDispose]()
        await child.ended
        await judged
        await pushes.finish(push)
      }
      response.end()
    },
  }

  function offerVersionTwo(repository: Repository): Promise<string> {
    versionTwoOffer ??= git
      .run(gitCommands.advertiseFetch(repository.path), { protocol: 'version=2' })
      .catch((error) => {
        versionTwoOffer = undefined
        throw error
      })
    return versionTwoOffer
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
    { child, input, contentType, heading }: Talk,
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
    })
    if (exitCode !== 0) log.warn({ repositoryId: repository.id, exitCode, complaint }, 'git failed')
    if (response.headersSent) return
    if (exitCode === 0) return onBegin()
    await stat(repository.path).catch(() => {
      throw new Problem('repository_not_found', `The repository "${repository.name}" is gone.`)
    })
    throw new Problem('malformed_git_request', "The request is not one of Git's protocol.")
  }
}

/** The protocol version that a client asks for, if it is one that Git has; anything else is not passed on. */
function protocolOf({ headers }: IncomingMessage): string {
  const [wanted = ''] = String(headers['git-protocol'] ?? '').split(':')
  return /^version=[012]$/.test(wanted) ? wanted : ''
}

// Git asks with an empty request whether a long one would be let in: remote-curl.c, probe_rpc.
function isProbe(request: IncomingMessage, first: string): boolean {
  return first === 'flush' && request.headers['content-length'] === String(flushPacket.length)
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

async function* nothing(): Body {}
