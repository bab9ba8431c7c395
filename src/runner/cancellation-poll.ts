import { pause } from '../base/timeouts.ts'
import type { RunConnection } from './run-connection.ts'

const waitSeconds = 20
const graceMs = 10_000
// What was ordered once needs no hurry to be heard again; the lease does want to be renewed.
const calmMs = 10_000
const leastMs = 1000
// A short run is over by then; what is ordered meanwhile it hears by the answers to its reports.
const firstAfterMs = 300

/** What the server wants of a run. */
export type RunOrder = { cancel: string | null; kill: boolean }

type Options = {
  connection: Pick<RunConnection, 'ask'>
  leaseSeconds: number
  onOrder: (order: RunOrder) => void
  signal: AbortSignal
}

/** Listens to what the server wants of a run, which tells it that the runner lives. Ends by rejecting. */
export async function pollOrders({ connection, leaseSeconds, onOrder, signal }: Options) {
  const wait = Math.max(1, Math.min(waitSeconds, Math.floor(leaseSeconds / 4)))
  const calm = Math.min(calmMs, (leaseSeconds * 1000) / 4)
  await pause(firstAfterMs, signal)
  for (;;) {
    const askedAt = performance.now()
    const answer = await connection.ask({
      method: 'GET',
      path: `/orders?wait=${wait}`,
      timeoutMs: wait * 1000 + graceMs,
      signal,
    })
    const { cancel, kill } = Object(answer)
    if (typeof cancel === 'string') {
      onOrder({ cancel, kill: kill === true })
      await pause(calm, signal)
    } else {
      // A server that does not wait is not asked without end.
      await pause(askedAt + leastMs - performance.now(), signal)
    }
  }
}
