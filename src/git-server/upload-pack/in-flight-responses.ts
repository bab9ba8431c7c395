import { EventEmitter } from 'node:events'
import type { FileHandle } from 'node:fs/promises'
import { finished } from 'node:stream/promises'
import type { GitProcess } from '../../git/process/git-process.ts'
import { type PipeEnd, pipeProcess } from '../../git/protocol/pipe-process.ts'
import { bodyOf } from '../../git/protocol/request-body.ts'
import { createResponsePipe, type ResponsePipe } from './response-pipe.ts'

/** How git produces the response to a request. */
export type Production = {
  input: Buffer
  /** Waits for the limiter. */
  acquire: (signal: AbortSignal) => Promise<Disposable>
  start: () => Promise<GitProcess>
}

type InFlightResponse = {
  key: string
  production: Production
  /** Released when git has ended. */
  permit: Disposable
  /** Whether the response should stay readable from its start when it exceeds memory; see ResponsePipe. */
  isWanted: (pipe: ResponsePipe) => boolean
  /** Called with the complete response. Readers can still join until it resolves. */
  onEnd: (pipe: ResponsePipe, ended: PipeEnd) => Promise<void>
}

/** Responses that git is producing, each shared by all clients that request it. */
export function createInFlightResponses(openFile: () => Promise<FileHandle>) {
  const inFlight = new Map<string, ResponsePipe>()
  const starts = new EventEmitter().setMaxListeners(0)

  function find(key: string): ResponsePipe | undefined {
    const pipe = inFlight.get(key)
    return pipe?.isWhole() ? pipe : undefined
  }

  async function run(
    pipe: ResponsePipe,
    response: InFlightResponse,
    signal: AbortSignal,
  ): Promise<void> {
    using _permit = response.permit
    using _hold = pipe.hold()
    const ended = await produce(pipe, response.production, signal)
    pipe.end(ended)
    await response.onEnd(pipe, ended)
  }

  return {
    /** A response that can still be read from its start. */
    find,

    /** Waits for the limiter; undefined when another request started the same response meanwhile. */
    async acquire(
      key: string,
      production: Production,
      signal: AbortSignal,
    ): Promise<Disposable | undefined> {
      const started = new AbortController()
      const stopWaiting = () => started.abort()
      starts.on(key, stopWaiting)
      try {
        return await production.acquire(AbortSignal.any([signal, started.signal]))
      } catch (error) {
        if (started.signal.aborted && !signal.aborted) return undefined
        throw error
      } finally {
        starts.off(key, stopWaiting)
      }
    },

    /** Starts git, which is ended when the last reader leaves. The caller must open a reader at once. */
    start(response: InFlightResponse): ResponsePipe {
      const { key, isWanted } = response
      const unread = new AbortController()
      const pipe = createResponsePipe({
        openFile,
        isWanted: () => isWanted(pipe),
        onUnread() {
          if (pipe.hasEnded()) return
          remove()
          unread.abort(new Error('The last reader of this response has left.'))
        },
      })
      const remove = () => {
        if (inFlight.get(key) === pipe) inFlight.delete(key)
      }
      inFlight.set(key, pipe)
      starts.emit(key)
      run(pipe, response, unread.signal).catch(pipe.fail).finally(remove)
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
