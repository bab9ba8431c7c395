import { parentPort } from 'node:worker_threads'
import { pause } from '#base/timeouts.ts'
import { openLease, type RequestedCancellation } from '../lease.ts'
import { connectRun, type LeasedRun, type RunConnection, RunLostError } from '../run-connection.ts'
import { createServerClient } from '../server-client.ts'

/** A request to the thread: to renew the lease of a run, or to stop. */
export type LeaseRequest =
  | { kind: 'hold'; key: number; server: string; held: LeasedRun; memory: SharedArrayBuffer }
  | { kind: 'end'; key: number }

/** A response of the thread: a cancellation of a run, or why its lease is not renewed any longer. */
export type LeaseResponse =
  | { key: number; order: RequestedCancellation }
  | { key: number; fault: string; isLost: boolean }

const polls = new Map<number, AbortController>()
let client: ReturnType<typeof createServerClient> | undefined

parentPort?.on('message', (request: LeaseRequest) => {
  if (request.kind === 'hold') void hold(request)
  else polls.get(request.key)?.abort()
})

async function hold({ key, server, held: run, memory }: LeaseRequest & { kind: 'hold' }) {
  const respond = (response: LeaseResponse) => parentPort?.postMessage(response)
  client ??= createServerClient(new URL(server))
  const end = new AbortController()
  polls.set(key, end)
  const lease = openLease(run.leaseSeconds, memory)
  using connection = connectRun({ client, held: run, lease })
  try {
    await pollCancellation({
      connection,
      leaseSeconds: run.leaseSeconds,
      onCancellation: (order) => respond({ key, order }),
      signal: AbortSignal.any([end.signal, connection.lost]),
    })
  } catch (error) {
    const { reason } = connection.lost
    const isLost = reason instanceof RunLostError
    const fault = isLost ? reason.message : String(error)
    if (!end.signal.aborted) respond({ key, fault, isLost })
  } finally {
    polls.delete(key)
  }
}

const waitSeconds = 20
const graceMs = 10_000
// After a cancellation, polls only renew the lease and wait for a kill.
const cancelledIntervalMs = 10_000
const minIntervalMs = 1000

type Options = {
  connection: Pick<RunConnection, 'request'>
  leaseSeconds: number
  onCancellation: (order: RequestedCancellation) => void
  signal: AbortSignal
}

/** Polls for cancellation, which also renews the lease. Never resolves. */
async function pollCancellation({ connection, leaseSeconds, onCancellation, signal }: Options) {
  const wait = Math.max(1, Math.min(waitSeconds, Math.floor(leaseSeconds / 4)))
  const cancelledMs = Math.min(cancelledIntervalMs, (leaseSeconds * 1000) / 4)
  for (;;) {
    const sentAt = performance.now()
    const response = await connection.request({
      method: 'GET',
      path: `/orders?wait=${wait}`,
      timeoutMs: wait * 1000 + graceMs,
      signal,
    })
    const { cancel, kill } = Object(response)
    if (typeof cancel === 'string') {
      onCancellation({ cancel, kill: kill === true })
      await pause(cancelledMs, signal)
    } else {
      // In case the server does not wait.
      await pause(sentAt + minIntervalMs - performance.now(), signal)
    }
  }
}
