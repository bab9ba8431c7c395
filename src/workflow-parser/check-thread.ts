import { extname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import type { CheckRequest, CheckResponse } from './check-worker.ts'

const program = new URL(`./check-worker${extname(import.meta.url)}`, import.meta.url)
const startTimeoutMs = 30_000
// Limits the busy time of the thread, which a loaded machine may delay, and at last the elapsed time.
const maxElapsedFactor = 20
const limits = { maxOldGenerationSizeMb: 100, maxYoungGenerationSizeMb: 16, stackSizeMb: 4 }

/** Creates a thread that parses files. It starts when needed, and again after it was lost. */
export function createCheckThread({ timeoutMs }: { timeoutMs: number }) {
  let worker: Worker | undefined

  async function start(): Promise<Worker> {
    const started = new Worker(program, { resourceLimits: limits, env: {}, stdin: false })
    // Pending requests handle its errors; without any, an error must not crash the process.
    started.on('error', () => {})
    started.once('exit', () => {
      if (worker === started) worker = undefined
    })
    worker = started
    await receive(started, (signal) => sleep(startTimeoutMs, undefined, { signal }))
    return started
  }

  return {
    /** Throws when the thread fails or exceeds its time or memory; the next call starts a new thread. */
    async check(request: CheckRequest): Promise<CheckResponse> {
      const running = worker ?? (await start())
      // Only a busy thread keeps the process alive.
      running.ref()
      try {
        const before = await running.cpuUsage().catch(() => {
          throw new CheckError('was stopped')
        })
        running.postMessage(request)
        // Both ends belong to this program.
        return (await receive(running, (signal) =>
          untilWorked(running, { before, timeoutMs, signal }),
        )) as CheckResponse
      } finally {
        running.unref()
      }
    },

    async end(): Promise<void> {
      const ended = worker
      worker = undefined
      await ended?.terminate()
    },
  }
}

/** Waits for the next message of a thread, which is terminated when it is overdue. */
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
    () => {}, // It has responded or exited, which is handled above.
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

/** Waits until a thread has used its busy time, or a multiple of that has elapsed. */
async function untilWorked(worker: Worker, { before, timeoutMs, signal }: Work): Promise<void> {
  for (let wait = 0; wait < maxElapsedFactor; wait++) {
    await sleep(timeoutMs, undefined, { signal })
    const { user, system } = await worker.cpuUsage(before)
    if ((user + system) / 1000 >= timeoutMs) return
  }
}

/** Why a check failed; the message continues "The check of this file". */
export class CheckError extends Error {
  override readonly name = 'CheckError'
}
