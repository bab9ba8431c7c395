import { parentPort } from 'node:worker_threads'
import { openLease } from '../lease.ts'
import { connectRun, type LeasedRun, RunLostError } from '../run-connection.ts'
import { createServerClient } from '../server-client.ts'
import { pollCancellation, type RequestedCancellation } from './cancellation-poll.ts'

/** To the thread: a run whose lease to renew, or one that has ended. */
export type LeaseRequest =
  | { kind: 'hold'; key: number; server: string; held: LeasedRun; memory: SharedArrayBuffer }
  | { kind: 'end'; key: number }

/** From the thread: what a poll has said of a run, or why there are no more. */
export type LeaseResponse =
  | { key: number; order: RequestedCancellation }
  | { key: number; fault: string; isLost: boolean }

const held = new Map<number, AbortController>()
let client: ReturnType<typeof createServerClient> | undefined

parentPort?.on('message', (request: LeaseRequest) => {
  if (request.kind === 'hold') void hold(request)
  else held.get(request.key)?.abort()
})

async function hold({ key, server, held: run, memory }: LeaseRequest & { kind: 'hold' }) {
  const respond = (response: LeaseResponse) => parentPort?.postMessage(response)
  client ??= createServerClient(new URL(server))
  const end = new AbortController()
  held.set(key, end)
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
    held.delete(key)
  }
}
