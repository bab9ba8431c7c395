import { EventEmitter } from 'node:events'
import type { FileHandle } from 'node:fs/promises'
import { finished } from 'node:stream/promises'
import type { GitProcess } from '../../git/process/git-process.ts'
import { type PipeEnd, pipeProcess } from '../../git/protocol/pipe-process.ts'
import { bodyOf } from '../../git/protocol/request-body.ts'
import { createResponsePipe, type ResponsePipe } from './response-pipe.ts'

/** How git comes to answer a request. */
export type Production = {
  input: Buffer
  /** Waits until git may. */
  takeTurn: (signal: AbortSignal) => Promise<Disposable>
  start: () => Promise<GitProcess>
}

type InFlightResponse = {
  key: string
  production: Production
  /** Over when git has ended. */
  turn: Disposable
  /** Whether the answer is to stay readable from its start, though memory has no room for it. */
  isWanted: (pipe: ResponsePipe) => boolean
  /** Called with the whole answer. Until this is done, others still join. */
  onEnd: (pipe: ResponsePipe, ended: PipeEnd) => Promise<void>
}

/** Answers that git is just giving, each to all who ask for it. */
export function createInFlightResponses(openFile: () => Promise<FileHandle>) {
  const inFlight = new Map<string, ResponsePipe>()
  const starts = new EventEmitter().setMaxListeners(0)

  function find(key: string): ResponsePipe | undefined {
    const pipe = inFlight.get(key)
    return pipe?.isWhole() ? pipe : undefined
  }

  async function fly(
    pipe: ResponsePipe,
    response: InFlightResponse,
    signal: AbortSignal,
  ): Promise<void> {
    using _turn = response.turn
    using _held = pipe.hold()
    const ended = await produce(pipe, response.production, signal)
    pipe.end(ended)
    await response.onEnd(pipe, ended)
  }

  return {
    /** An answer that can be read from its start. */
    find,

    /** Waits for a turn; undefined when meanwhile another's git has begun with the same. */
    async takeTurn(
      key: string,
      production: Production,
      signal: AbortSignal,
    ): Promise<Disposable | undefined> {
      const begun = new AbortController()
      const stopWaiting = () => begun.abort()
      starts.on(key, stopWaiting)
      try {
        return await production.takeTurn(AbortSignal.any([signal, begun.signal]))
      } catch (error) {
        if (begun.signal.aborted && !signal.aborted) return undefined
        throw error
      } finally {
        starts.off(key, stopWaiting)
      }
    },

    /** Has git answer, for as long as anybody reads. Whoever calls this begins to read at once. */
    start(response: InFlightResponse): ResponsePipe {
      const { key, isWanted } = response
      const unread = new AbortController()
      const pipe = createResponsePipe({
        openFile,
        isWanted: () => isWanted(pipe),
        onUnread() {
          if (pipe.hasEnded()) return
          land()
          unread.abort(new Error('Nobody waits for this answer any more.'))
        },
      })
      const land = () => {
        if (inFlight.get(key) === pipe) inFlight.delete(key)
      }
      inFlight.set(key, pipe)
      starts.emit(key)
      fly(pipe, response, unread.signal).catch(pipe.fail).finally(land)
      return pipe
    },
  }
}

async function produce(
  { output }: ResponsePipe,
  { input, start }: Production,
  signal: AbortSignal,
): Promise<PipeEnd> {
  await using child = await start()
  const ended = await pipeProcess(child, {
    input: bodyOf(input),
    output,
    sendsAllFirst: true,
    signal,
    onBegin() {},
    onProgress() {},
  })
  await finished(output.end())
  return ended
}
