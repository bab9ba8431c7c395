import { extname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import type { CheckAnswer, CheckQuestion } from './check-worker.ts'

const program = new URL(`./check-worker${extname(import.meta.url)}`, import.meta.url)
const startTimeoutMs = 30_000
// A busy machine may let the thread wait; that it works for so long counts, and at last that nothing comes.
const longestWait = 20
const limits = { maxOldGenerationSizeMb: 100, maxYoungGenerationSizeMb: 16, stackSizeMb: 4 }

/** A thread that parses files, started when it is needed and again when it was lost. */
export function createCheckThread({ timeoutMs }: { timeoutMs: number }) {
  let worker: Worker | undefined

  async function start(): Promise<Worker> {
    const started = new Worker(program, { resourceLimits: limits, env: {}, stdin: false })
    // Its end is told to whoever asks; without anybody it must not bring the process down.
    started.on('error', () => {})
    started.once('exit', () => {
      if (worker === started) worker = undefined
    })
    worker = started
    await receive(started, (signal) => sleep(startTimeoutMs, undefined, { signal }))
    return started
  }

  return {
    /** Throws when it takes too long or too much memory, or fails; the thread is then a new one the next time. */
    async ask(question: CheckQuestion): Promise<CheckAnswer> {
      const asked = worker ?? (await start())
      // Only a thread that works keeps the process alive.
      asked.ref()
      try {
        const before = await asked.cpuUsage().catch(() => {
          throw new CheckError('was stopped')
        })
        asked.postMessage(question)
        // Both ends are of this program.
        return (await receive(asked, (signal) =>
          untilWorked(asked, { before, timeoutMs, signal }),
        )) as CheckAnswer
      } finally {
        asked.unref()
      }
    },

    async end(): Promise<void> {
      const ended = worker
      worker = undefined
      await ended?.terminate()
    },
  }
}

/** The next message of a thread; one that does not answer before it is overdue is ended. */
async function receive(
  worker: Worker,
  untilOverdue: (signal: AbortSignal) => Promise<unknown>,
): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>()
  const settled = new AbortController()
  const onExit = () => reject(new CheckError('was stopped'))
  const onError = (error: Error & { code?: string }) => {
    const isMemory = error.code === 'ERR_WORKER_OUT_OF_MEMORY'
    reject(new CheckError(isMemory ? 'took too much memory' : `failed (${error.message})`))
  }
  worker.once('message', resolve)
  worker.once('error', onError)
  worker.once('exit', onExit)
  untilOverdue(settled.signal).then(
    () => reject(new CheckError('took too long')),
    () => {}, // It has answered, or ended, which is told.
  )
  try {
    return await promise
  } catch (failure) {
    await worker.terminate()
    throw failure
  } finally {
    settled.abort()
    worker.off('message', resolve)
    worker.off('error', onError)
    worker.off('exit', onExit)
  }
}

type Work = { before: NodeJS.CpuUsage; timeoutMs: number; signal: AbortSignal }

/** Waits until a thread has worked for so long, or has had many times that to do so. */
async function untilWorked(worker: Worker, { before, timeoutMs, signal }: Work): Promise<void> {
  for (let wait = 0; wait < longestWait; wait++) {
    await sleep(timeoutMs, undefined, { signal })
    const { user, system } = await worker.cpuUsage(before)
    if ((user + system) / 1000 >= timeoutMs) return
  }
}

/** Why there is no answer; the message goes on from `the check`. */
export class CheckError extends Error {
  override readonly name = 'CheckFailure'
}
