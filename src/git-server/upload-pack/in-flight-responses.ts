import { EventEmitter } from 'node:events'
import type { FileHandle } from 'node:fs/promises'
import { finished } from 'node:stream/promises'
import type { GitProcess } from '../../git/process/git-process.ts'
import { converse, type Said } from '../../git/process/pipe-process.ts'
import { bodyOf } from '../../git/protocol/request-body.ts'
import { type AnswerSpool, createAnswerSpool } from './response-pipe.ts'

/** How git comes to answer a request. */
export type Production = {
  input: Buffer
  /** Waits until git may. */
  takeTurn: (signal: AbortSignal) => Promise<Disposable>
  start: () => Promise<GitProcess>
}

type Flight = {
  key: string
  production: Production
  /** Over when git has ended. */
  turn: Disposable
  /** Whether the answer is to stay readable from its start, though memory has no room for it. */
  isWanted: (spool: AnswerSpool) => boolean
  /** Called with the whole answer. Until this is done, others still join. */
  onEnd: (spool: AnswerSpool, ended: Said) => Promise<void>
}

/** Answers that git is just giving, each to all who ask for it. */
export function createFlights(openFile: () => Promise<FileHandle>) {
  const flights = new Map<string, AnswerSpool>()
  const starts = new EventEmitter().setMaxListeners(0)

  function find(key: string): AnswerSpool | undefined {
    const spool = flights.get(key)
    return spool?.isWhole() ? spool : undefined
  }

  async function fly(spool: AnswerSpool, flight: Flight, signal: AbortSignal): Promise<void> {
    using _turn = flight.turn
    using _held = spool.hold()
    const ended = await produce(spool, flight.production, signal)
    spool.end(ended)
    await flight.onEnd(spool, ended)
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
    start(flight: Flight): AnswerSpool {
      const { key, isWanted } = flight
      const unread = new AbortController()
      const spool = createAnswerSpool({
        openFile,
        isWanted: () => isWanted(spool),
        onUnread() {
          if (spool.hasEnded()) return
          land()
          unread.abort(new Error('Nobody waits for this answer any more.'))
        },
      })
      const land = () => {
        if (flights.get(key) === spool) flights.delete(key)
      }
      flights.set(key, spool)
      starts.emit(key)
      fly(spool, flight, unread.signal).catch(spool.fail).finally(land)
      return spool
    },
  }
}

async function produce(
  { output }: AnswerSpool,
  { input, start }: Production,
  signal: AbortSignal,
): Promise<Said> {
  await using child = await start()
  const ended = await converse(child, {
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
