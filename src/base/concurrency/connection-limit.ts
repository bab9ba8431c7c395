import type { Socket } from 'node:net'
import { acceptableConnections } from '../descriptors.ts'
import { networkOf } from '../network.ts'
import { createQuota } from './quota.ts'
import { createUnauthenticatedLimit } from './unauthenticated-limit.ts'

/** Limits of the connections of a listener. */
type Options = {
  /** Connections of users, of which one may have a quarter. */
  connections: number
  /** Clients that have not authenticated. */
  unauthenticated: number
  unauthenticatedPerAddress: number
  /** Says why a connection is refused. */
  refuse: (socket: Socket) => void
  onRefused: (address: string) => void
}

/** A client that has not authenticated. */
type Newcomer = {
  address: string
  /** Called when another client gets its permit. */
  onRevoked: () => void
  /** Whether it has been served and sends nothing, so that it can be disconnected without loss. */
  isIdle?: () => boolean
}

const lingerMs = 1000
// Beyond this many, refused clients get no reason.
const maxRefused = 200
// An unauthenticated client has a permit or, for a moment, one of four places in the queue for it.
const socketsPerPermit = 5

/**
 * Limits the connections of a listener: those of unauthenticated clients by address and in all, others by user and in
 * all. No more are accepted than the process has file descriptors for.
 */
export function createConnectionLimit(options: Options) {
  const acceptable = acceptableConnections()
  const half = Math.max(1, Math.floor(acceptable / 2))
  const unauthenticated = createUnauthenticatedLimit({
    perAddress: options.unauthenticatedPerAddress,
    overall: Math.min(options.unauthenticated, Math.max(1, Math.floor(half / socketsPerPermit))),
  })
  const connections = Math.min(options.connections, half)
  // A quarter per user, so that none can take all.
  const users = createQuota({
    overall: connections,
    perKey: Math.max(1, Math.floor(connections / 4)),
  })
  let accepted = 0
  let refused = 0

  function refuse(socket: Socket, address: string): void {
    options.onRefused(address)
    if (refused >= Math.min(maxRefused, acceptable)) {
      socket.destroy()
      return
    }
    refused += 1
    socket.once('close', () => {
      refused -= 1
    })
    options.refuse(socket)
    // Unread data would reset the connection before the client reads the reason.
    socket.resume()
    setTimeout(() => socket.destroy(), lingerMs).unref()
  }

  return {
    /** Accepts a connection, or refuses it if there are no descriptors for more. */
    accept(socket: Socket): boolean {
      if (accepted >= acceptable) {
        refuse(socket, socket.remoteAddress ?? '')
        return false
      }
      accepted += 1
      socket.once('close', () => {
        accepted -= 1
      })
      return true
    },

    refuse,

    /** Waits for a permit of an unauthenticated client; undefined when none is free in time. */
    authenticating: ({ address, ...newcomer }: Newcomer) =>
      unauthenticated.acquire(networkOf(address), newcomer),

    /** Acquires a place of a user until it is disposed; returns the limit that is reached instead. */
    ofUser: (key: string) => users.acquire(key),
  }
}
