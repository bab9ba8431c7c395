/** The time in milliseconds on a clock that all threads share. */
export function threadsNow(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

/** When the lease of a run ends, in memory that the threads of the runner share. */
export type RunLease = {
  /** Of one number. */
  memory: SharedArrayBuffer
  /** Counted from before a request, so the lease expires here before it does on the server. */
  renew: (sentAt: number) => void
  /** Milliseconds that are left. */
  left: () => number
}

/** Opens a lease: a new one, or one that another thread shares. */
export function openLease(leaseSeconds: number, shared?: SharedArrayBuffer): RunLease {
  const memory = shared ?? new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT)
  const until = new Float64Array(memory)
  const renew = (sentAt: number) => {
    until[0] = Math.max(until[0] ?? 0, sentAt + leaseSeconds * 1000)
  }
  if (shared === undefined) renew(threadsNow())
  return { memory, renew, left: () => (until[0] ?? 0) - threadsNow() }
}

/** Whether the server wants a run to be cancelled or killed. */
export type RequestedCancellation = { cancel: string | null; kill: boolean }
