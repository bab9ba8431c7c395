import { stat } from 'node:fs/promises'
import { watchDrain } from '#base/chunks.ts'
import type { Log } from '#base/log.ts'
import { Problem } from '#base/problem.ts'
import { watchStall } from '#base/timeouts.ts'
import type { GitProcess } from '#git/process/git-process.ts'
import {
  type PipeEnd,
  pipeProcess,
  type ReportHold,
  type ResponseSink,
} from '#git/protocol/pipe-process.ts'
import type { Body } from '#git/protocol/request-body.ts'
import { malformedRequest } from '#git/protocol/requests.ts'
import { assertRepository } from '#git/refs/refs.ts'
import type { GitRequest, RequestOutcome } from './git-request.ts'

/** A request whose signal is also aborted when its client stalls: neither sends nor reads. */
export type WatchedRequest = GitRequest & Disposable & { onProgress: () => void }

type Exchange = {
  child: GitProcess
  input: Body
  /** Precedes git's output. */
  heading?: Buffer | undefined
  onComplete?: () => void
  reportHold?: ReportHold
  /** When the response itself explains why a limit ended git: see pipeProcess. */
  explains?: 'always' | 'once begun'
}

// Bounds the bytes that are encrypted or copied ahead of a slow client.
const maxWriteBytes = 1024 * 1024
// Small enough to send without waiting for the client to read.
const shortMaxBytes = 64 * 1024

/**
 * Watches a request for stalls until disposed. Progress is also reported to an outer watch. While a client may think, as
 * it does between the rounds of a fetch and before it has made its pack, it may be silent for as long as it is there.
 */
export function watchRequest(
  request: GitRequest | WatchedRequest,
  stallMs: number,
  mayThink = () => false,
): WatchedRequest {
  const { response, isReceiving, isAlive } = request
  const isSilent = () => isReceiving() && !(mayThink() && isAlive())
  const isWaiting = () => isSilent() || response.output.writableNeedDrain
  const stall = watchStall(stallMs, isWaiting, request.signal)
  return {
    ...request,
    signal: stall.signal,
    onProgress() {
      stall.progress()
      if ('onProgress' in request) request.onProgress()
    },
    [Symbol.dispose]: () => stall[Symbol.dispose](),
  }
}

/** The client of a request as the sink of a response. */
export function sinkOf({ response, signal, onProgress }: WatchedRequest): ResponseSink {
  return { output: response.output, signal, onBegin: response.begin, onProgress }
}

/** Connects a git process to a request and waits for both. */
export async function respond(
  watched: WatchedRequest,
  { child, input, heading, onComplete, reportHold, explains }: Exchange,
  log: Log,
): Promise<RequestOutcome> {
  const { response, repository, signal, onProgress, sendsAllFirst } = watched
  const { output } = response
  const onBegin = () => {
    response.begin()
    if (heading) output.write(heading)
  }
  const ended = await pipeProcess(child, {
    input,
    output,
    sendsAllFirst,
    signal,
    onBegin,
    onProgress,
    onTransferred: onComplete,
    reportHold,
    explains,
  })
  const { exitCode, errorOutput } = ended
  if (exitCode !== 0) log.warn({ repositoryId: repository.id, exitCode, errorOutput }, 'git failed')
  if (!response.hasBegun() && exitCode === 0) onBegin()
  return await conclude(watched, ended)
}

/** The outcome of a request after git has ended. Throws a Problem that explains a missing or incomplete response. */
export async function conclude(
  { response, repository }: WatchedRequest,
  { exitCode, exceeded, isExplained, isIncomplete }: Omit<PipeEnd, 'errorOutput'>,
): Promise<RequestOutcome> {
  if (isExplained) return 'refused'
  if (exceeded) throw exceeded
  if (!response.hasBegun() && exitCode === 0) response.begin()
  if (response.hasBegun()) return isIncomplete ? null : exitCode
  await stat(repository.path).catch(() => {
    throw new Problem('repository_not_found', `The repository "${repository.name}" was deleted.`)
  })
  await assertRepository(repository.path)
  // Not the client's fault.
  if (exitCode === null) throw new Error('git was killed before its first output')
  throw malformedRequest()
}

/** Responds with bytes that are in memory. */
export async function respondWithBytes(
  request: GitRequest | WatchedRequest,
  pieces: readonly Buffer[],
  stallMs: number,
): Promise<RequestOutcome> {
  const { response } = request
  const { output } = response
  const size = pieces.reduce((sum, { length }) => sum + length, 0)
  if (size <= shortMaxBytes) {
    const [first = Buffer.alloc(0), ...more] = pieces
    response.respondWithBytes(more.length === 0 ? first : Buffer.concat(pieces, size))
    return 0
  }
  response.begin(size)
  for (const piece of pieces) {
    for (let at = 0; at < piece.length; at += maxWriteBytes) {
      if (output.write(piece.subarray(at, at + maxWriteBytes))) continue
      using watched = watchRequest(request, stallMs)
      using draining = watchDrain(output, watched.signal)
      await draining.wait()
      watched.onProgress()
      watched.signal.throwIfAborted()
    }
  }
  return 0
}
