import { type Clock, systemClock } from '#base/clock.ts'

/** The servers of one database. Only with a shared store are there several; each is a node. */
export type Nodes = {
  /** The unique name of this node, which owns its leases, also those from before a restart. */
  own: string
  /** The clock by which all nodes decide. */
  clock: Clock
  /** Shows the others that this node runs, and listens to them, until disposed. */
  start: () => Promise<AsyncDisposable>
  /** Whether another node runs, apart from the last seconds. */
  isRunning: (name: string) => Promise<boolean>
  /** Sends a message to the others. It is a hint: it may be lost, so receivers poll, too. */
  send: (message: string) => void
  /** Calls a listener at each message of another node. */
  onMessage: (listener: (message: string) => void) => void
}

/** The only server of a database. */
export function createSingleNode(own: string): Nodes {
  return {
    own,
    clock: systemClock,
    start: async () => new AsyncDisposableStack(),
    isRunning: async (name) => name === own,
    send() {},
    onMessage() {},
  }
}
