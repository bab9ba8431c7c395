import { Writable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import type { Principal } from '#access/principal.ts'
import { formatOf } from '#base/object-id.ts'
import { Problem, toProblem } from '#base/problem.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { PushResult } from '#git/protocol/hook-channel.ts'
import { flushPacket, packet } from '#git/protocol/pkt-line.ts'
import { type PushReport, parsePushReport } from '#git/protocol/push-report.ts'
import type { Body } from '#git/protocol/request-body.ts'
import { toGitId, zeroId } from '#git/refs/ref-name.ts'
import { type RefUpdate, readRefs } from '#git/refs/refs.ts'
import type { Repositories, Repository } from '#repositories/repositories.ts'
import type { Landing } from '../push/proposal.ts'
import type { Push, PushAuthority } from '../push/push.ts'
import { createReceivePack, type ReceivePackParts } from '../receive-pack/receive-pack.ts'
import type { GitResponse } from '../requests/git-request.ts'
import { createMeasure, type Operation } from '../requests/operations.ts'
import { refMoved, toObjectsProblem, toUpdateProblem } from './refusals.ts'

/** A request of the API that changes a repository whose access has been checked. */
export type ApiWrite = {
  principal: Principal
  repository: Repository
  /** Aborted when the client disconnects. */
  signal: AbortSignal
  /** The changes that it lands, if any. */
  landing?: Landing | undefined
}

type ApiPushOptions = {
  /** The new objects; undefined when a ref is deleted. */
  pack: Body | undefined
  /** The paths of new trees and files by their ids, for messages about them. */
  paths?: ReadonlyMap<string, string>
}

/**
 * Pushes an update of one ref. Returns the id of the push, or of a proposal, the name of its version. Throws `ref_moved` when the ref has not the old value, and
 * the Problems of a push.
 */
export type PushFromApi = (
  write: ApiWrite,
  update: RefUpdate,
  options: ApiPushOptions,
) => Promise<string>

export type ApiPushParts = Omit<ReceivePackParts, 'via' | 'stallMs'> & {
  repositories: Pick<Repositories, 'reopen'>
  settings: Pick<PlainSettings, 'gitStallSeconds'>
  /** Called when an operation has ended. */
  onOperation: (operation: Operation) => void
}

// What git needs to say to a client of its own.
const capabilities = 'report-status side-band-64k quiet atomic agent=svc-api'
const outputMaxBytes = 1024 * 1024

/**
 * Makes changes of the API as pushes of a client within the server: they pass through git, its hooks and everything that
 * receives a push over HTTP or SSH.
 */
export function createPushFromApi(dependencies: ApiPushParts): PushFromApi {
  const { pushes, repositories, settings, onOperation } = dependencies
  const stallMs = settings.gitStallSeconds * 1000
  const measure = createMeasure(onOperation)

  /** What the authority of a push decided, in its own terms: git passes on only text. */
  type Decided = { push?: Push; error?: unknown; result?: PushResult; isFinished: boolean }

  function watched(decided: Decided, landing: Landing | undefined): PushAuthority {
    return {
      awaitRuns: pushes.awaitRuns,
      requireBytesLeft: pushes.requireBytesLeft,
      async propose(push, updates) {
        try {
          decided.result = await pushes.propose(push, updates)
          return decided.result
        } catch (error) {
          decided.error = error
          throw error
        }
      },
      async authorize(push, updates) {
        decided.push = push
        push.landing = landing
        try {
          const result = await pushes.authorize(push, updates)
          if (result) decided.result = result
          return result
        } catch (error) {
          decided.error = error
          throw error
        }
      },
      async finalize(push) {
        decided.isFinished = await pushes.finalize(push)
        return decided.isFinished
      },
    }
  }

  async function presentValue({ principal, repository }: ApiWrite, ref: string): Promise<string> {
    // With a shared store, this brings its directory up to date.
    const { path } = await repositories.reopen(principal, repository, 'repo:write')
    return (await readRefs(path, [ref])).get(ref) ?? zeroId
  }

  return async (write, update, { pack, paths = new Map() }) => {
    const { principal, repository, signal } = write
    const decided: Decided = { isFinished: true }
    const receive = createReceivePack({
      ...dependencies,
      via: 'api',
      pushes: watched(decided, write.landing),
      stallMs,
    })
    const { response, output } = createResponse()
    const request = {
      principal,
      repository,
      protocol: '',
      response,
      isReceiving: () => false,
      isAlive: () => true,
      sendsAllFirst: false,
      signal,
    }
    await measure('push', receive)(request, bodyOfPush(update, pack), false)
    const report = parsePushReport(output())
    if (decided.error !== undefined) throw toProblem(decided.error)
    const refusal = refusalOf(report, decided.result, update.ref)
    if (refusal !== undefined) {
      if (report.unpackError !== undefined) throw toObjectsProblem(report, paths)
      const present = await presentValue(write, update.ref)
      if (present !== update.before) throw refMoved(update.ref, present)
      throw toUpdateProblem(update.ref, refusal, report.text)
    }
    if (!report.isComplete) throw new Error(`git did not report a push: ${report.text}`)
    if (!decided.isFinished) throw finishedLater()
    return decided.result?.results?.[0]?.name ?? decided.push?.id ?? ''
  }
}

async function* bodyOfPush({ before, after, ref }: RefUpdate, pack: Body | undefined): Body {
  const format = formatOf(after === zeroId ? before : after)
  const ids = `${toGitId(before, format)} ${toGitId(after, format)}`
  const command = packet(`${ids} ${ref}\0 ${capabilities} object-format=${format}`)
  const head = Buffer.concat([command, flushPacket])
  const first = await pack?.next()
  yield first?.value ? Buffer.concat([head, first.value]) : head
  if (pack) yield* pack
}

/** Why an update was refused; undefined when it was made. */
function refusalOf(
  { refusals, unpackError, fatal }: PushReport,
  result: PushResult | undefined,
  ref: string,
): string | undefined {
  const decided = result?.results?.find((one) => one.ref === ref)?.refusal
  return unpackError ?? fatal ?? decided ?? refusals.get(ref)
}

/** The response of a push, in memory. */
function createResponse(): { response: GitResponse; output: () => Buffer } {
  const chunks: Buffer[] = []
  let bytes = 0
  let hasBegun = false
  const output = new Writable({
    write(chunk: Buffer, _, done) {
      bytes += chunk.length
      if (bytes <= outputMaxBytes) chunks.push(chunk)
      done()
    },
  })
  const response: GitResponse = {
    output,
    begin() {
      hasBegun = true
    },
    respondWithBytes(given) {
      hasBegun = true
      chunks.push(given)
    },
    hasBegun: () => hasBegun,
    onComplete() {},
  }
  return { response, output: () => Buffer.concat(chunks) }
}

function finishedLater(): Problem {
  const detail =
    'The change is made. Its record and events follow when the database is available again. Do not repeat the request.'
  return new Problem('database_unavailable', detail, { retryAfterSeconds: 5 })
}

// A ref that moves again each time is left to the client.
const maxAttempts = 8
/** The longest pause before the second attempt; each further one may be twice as long, so that writers take turns. */
const firstPauseMs = 10

/** Attempts a change again when its ref has moved meanwhile, if the client did not say what the ref must be. */
export async function retryMoved<T>(
  repositories: Pick<Repositories, 'reopen'>,
  write: ApiWrite,
  mayRetry: boolean,
  attempt: (write: ApiWrite) => Promise<T>,
): Promise<T> {
  let current = write
  for (let number = 1; ; number++) {
    try {
      return await attempt(current)
    } catch (error) {
      const isMoved = error instanceof Problem && error.code === 'ref_moved'
      if (!isMoved || !mayRetry || number === maxAttempts) throw error
      const pauseMs = Math.random() * firstPauseMs * 2 ** (number - 1)
      await pause(pauseMs, undefined, { signal: write.signal })
      const { principal, repository } = write
      current = {
        ...write,
        repository: await repositories.reopen(principal, repository, 'repo:write'),
      }
    }
  }
}
