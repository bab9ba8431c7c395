import { pause } from '#base/timeouts.ts'
import type { RunConnection } from '../run-connection.ts'

const waitSeconds = 20
const graceMs = 10_000
// After a cancellation, polls only renew the lease and wait for a kill.
const cancelledIntervalMs = 10_000
const minIntervalMs = 1000

/** Whether the server wants a run to be cancelled or killed. */
export type RequestedCancellation = { cancel: string | null; kill: boolean }

type Options = {
  connection: Pick<RunConnection, 'request'>
  leaseSeconds: number
  onCancellation: (order: RequestedCancellation) => void
  signal: AbortSignal
}

/** Polls for cancellation, which also renews the lease. Never resolves. */
export async function pollCancellation({
  connection,
  leaseSeconds,
  onCancellation,
  signal,
}: Options) {
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
