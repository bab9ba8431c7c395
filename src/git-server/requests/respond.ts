import { stat } from 'node:fs/promises'
import type { Log } from '../../base/log.ts'
import { Problem } from '../../base/problem.ts'
import type { GitProcess } from '../../git/process/git-process.ts'
import { watchStall } from '../../git/process/stall-timeout.ts'
import { type PipeEnd, pipeProcess, type ReportHold } from '../../git/protocol/pipe-process.ts'
import type { Body } from '../../git/protocol/request-body.ts'
import { malformedRequest } from '../../git/protocol/requests.ts'
import { assertRepository } from '../../git/refs/refs.ts'
import type { GitRequest, RequestOutcome } from './git-request.ts'

/** A request whose signal is aborted, too, when its client neither sends nor reads. */
export type WatchedRequest = GitRequest & Disposable & { onProgress: () => void }

type Talk = {
  child: GitProcess
  input: Body
  /** What the answer begins with, before git's own output. */
  heading?: Buffer | undefined
  onSaid?: () => void
  hold?: ReportHold
  /** Whether a reason is given in the response, even as all of it: see converse. */
  explains?: 'always' | 'once begun'
}

/** Watches a request for as long as it is not disposed of. For one that is watched already, what moves is told there, too. */
export function watchRequest(
  request: GitRequest | WatchedRequest,
  stallMs: number,
): WatchedRequest {
  const { answer, isReceiving } = request
  const isWaiting = () => isReceiving() || answer.output.writableNeedDrain
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

/** Has a git process answer a request. */
export async function respond(
  watched: WatchedRequest,
  { child, input, heading, onSaid, hold, explains }: Talk,
  log: Log,
): Promise<RequestOutcome> {
  const { answer, repository, signal, onProgress, sendsAllFirst } = watched
  const { output } = answer
  const onBegin = () => {
    answer.begin()
    if (heading) output.write(heading)
  }
  const ended = await pipeProcess(child, {
    input,
    output,
    sendsAllFirst,
    signal,
    onBegin,
    onProgress,
    onSaid,
    hold,
    explains,
  })
  const { exitCode, complaint } = ended
  if (exitCode !== 0) log.warn({ repositoryId: repository.id, exitCode, complaint }, 'git failed')
  if (!answer.hasBegun() && exitCode === 0) onBegin()
  return await conclude(watched, ended)
}

/** What comes of a request when git has ended. Throws a Problem that says why it has said nothing, or not all. */
export async function conclude(
  { answer, repository }: WatchedRequest,
  { exitCode, exceeded, isExplained }: Pick<PipeEnd, 'exitCode' | 'exceeded' | 'isExplained'>,
): Promise<RequestOutcome> {
  if (isExplained) return 'refused'
  if (exceeded) throw exceeded
  if (!answer.hasBegun() && exitCode === 0) answer.begin()
  if (answer.hasBegun()) return exitCode
  await stat(repository.path).catch(() => {
    throw new Problem('repository_not_found', `The repository "${repository.name}" is gone.`)
  })
  await assertRepository(repository.path)
  // That is nothing that the client has done.
  if (exitCode === null) throw new Error('git was killed before it said anything')
  throw malformedRequest()
}
