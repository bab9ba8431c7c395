import { connect, type NetConnectOpts } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'

const startsWithinMs = 5000
const lookEveryMs = 20

/** Waits until a server listens at each of the addresses. */
export async function untilListening(
  addresses: NetConnectOpts[],
  signal: AbortSignal,
): Promise<void> {
  const deadline = performance.now() + startsWithinMs
  for (const address of addresses) {
    while (!(await listens(address))) {
      const where = 'path' in address ? address.path : `port ${address.port}`
      if (performance.now() > deadline) throw new Error(`No server listens at ${where}.`)
      await pause(lookEveryMs, undefined, { signal })
    }
  }
}

function listens(address: NetConnectOpts): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(address)
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
    socket.on('connect', () => socket.destroy())
  })
}
