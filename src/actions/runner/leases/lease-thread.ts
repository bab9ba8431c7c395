import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { RequestedCancellation } from '../lease.ts'
import { type LeasedRun, type RunConnection, RunLostError } from '../run-connection.ts'
import type { LeaseRequest, LeaseResponse } from './lease-worker.ts'

/** Renews the leases of all runs of a runner in a thread, so that none is lost while the event loop is busy. */
export type LeaseThread = AsyncDisposable & {
  /** Renews a lease until the signal is aborted. `onError` gets a RunLostError when the server has taken the run away. */
  hold: (held: LeasedRun, options: HoldOptions) => void
}

type HoldOptions = {
  connection: Pick<RunConnection, 'lease'>
  onCancellation: (order: RequestedCancellation) => void
  onError: (error: unknown) => void
  signal: AbortSignal
}

const program = new URL(`./lease-worker${extname(import.meta.url)}`, import.meta.url)
// A short run needs no poll: responses to its reports renew the lease, and say whether it is cancelled.
const firstDelayMs = 300
const resourceLimits = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 8 }

/** The thread starts with the first run that is not short. */
export function createLeaseThread(server: URL): LeaseThread {
  const runs = new Map<number, Omit<HoldOptions, 'connection' | 'signal'>>()
  let worker: Worker | undefined
  let lastKey = 0

  function start(): Worker {
    const started = new Worker(program, { resourceLimits, stdin: false })
    started.unref()
    started.on('message', onResponse)
    started.on('error', (error) => {
      if (worker === started) worker = undefined
      for (const { onError } of runs.values()) onError(error)
      runs.clear()
    })
    return started
  }

  function onResponse(response: LeaseResponse): void {
    const run = runs.get(response.key)
    if (run === undefined) return
    if ('order' in response) run.onCancellation(response.order)
    else {
      runs.delete(response.key)
      run.onError(response.isLost ? new RunLostError(response.fault) : new Error(response.fault))
    }
  }

  return {
    hold(held, { connection, signal, ...run }) {
      if (signal.aborted) return
      const key = ++lastKey
      const send = (request: LeaseRequest) => worker?.postMessage(request)
      const timer = setTimeout(() => {
        runs.set(key, run)
        worker ??= start()
        const { memory } = connection.lease
        send({ kind: 'hold', key, server: server.href, held, memory })
      }, firstDelayMs)
      signal.addEventListener('abort', () => {
        clearTimeout(timer)
        if (runs.delete(key)) send({ kind: 'end', key })
      })
    },

    async [Symbol.asyncDispose]() {
      await worker?.terminate()
    },
  }
}
