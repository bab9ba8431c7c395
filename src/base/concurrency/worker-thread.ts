import { type ResourceLimits, Worker } from 'node:worker_threads'
import type { WorkerMessage } from './worker-requests.ts'

const startTimeoutMs = 30_000
// Limits the busy time of the thread, which a loaded machine may delay, and at last the elapsed time.
const maxElapsedFactor = 20

type Options = {
  /** The program of the thread. It sends a message once it is loaded, and one response to each request. */
  program: URL
  /** How long the thread may be busy with a request. */
  timeoutMs: number
  limits: ResourceLimits
}

/** Creates a thread that responds to one request at a time. It starts when needed, and again after it was lost. */
export function createWorkerThread({ program, timeoutMs, limits }: Options) {
  let worker: Worker | undefined
  let cpuBefore: NodeJS.CpuUsage | undefined

  async function start(): Promise<Worker> {
    const started = new Worker(program, { resourceLimits: limits, env: {}, stdin: false })
    // Pending requests handle its errors; without any, an error must not crash the process.
    started.on('error', () => {})
    started.once('exit', () => {
      if (worker === started) worker = undefined
    })
    worker = started
    try {
      cpuBefore = (await receive(started, startTimeoutMs, () => true)).cpu
    } catch (error) {
      throw new WorkerStartError('did not start', { cause: error })
    }
    return started
  }

  return {
    /** Throws WorkerThreadError when the thread fails or exceeds its time or memory; the next request starts another one. */
    async request(message: unknown): Promise<unknown> {
      const running = worker ?? (await start())
      // Only a busy thread keeps the process alive.
      running.ref()
      try {
        // It does nothing between requests.
        const before = cpuBefore
        running.postMessage(message)
        const { response, cpu } = await receive(running, timeoutMs, async (checks) => {
          if (checks >= maxElapsedFactor) return true
          const { user, system } = await running.cpuUsage(before)
          return (user + system) / 1000 >= timeoutMs
        })
        cpuBefore = cpu
        return response
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

/** Waits for the next message of a thread, which is terminated when it is overdue; that is checked at intervals. */
async function receive(
  worker: Worker,
  intervalMs: number,
  isOverdue: (checks: number) => boolean | Promise<boolean>,
): Promise<WorkerMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<WorkerMessage>()
  const onExit = () => reject(new WorkerThreadError('was stopped'))
  const onError = (error: Error & { code?: string }) => {
    const isMemory = error.code === 'ERR_WORKER_OUT_OF_MEMORY'
    const detail = isMemory ? 'took too much memory' : `failed (${error.message})`
    reject(new WorkerThreadError(detail))
  }
  worker.once('message', resolve)
  worker.once('error', onError)
  worker.once('exit', onExit)
  let checks = 0
  const timer = setInterval(async () => {
    checks += 1
    // One that has exited is handled above.
    if (await Promise.try(isOverdue, checks).catch(() => false))
      reject(new WorkerThreadError('took too long'))
  }, intervalMs)
  try {
    return await promise
  } catch (failure) {
    await worker.terminate()
    throw failure
  } finally {
    clearInterval(timer)
    worker.off('message', resolve)
    worker.off('error', onError)
    worker.off('exit', onExit)
  }
}

/** Why a request was not answered; the message continues a sentence about it: "took too long". */
export class WorkerThreadError extends Error {
  override readonly name: string = 'WorkerThreadError'
}

/** The thread is not there for any request: its program cannot be loaded, or the machine has no memory for it. */
export class WorkerStartError extends WorkerThreadError {
  override readonly name = 'WorkerStartError'
}
