import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { limitKeyOf, type Principal } from '#access/principal.ts'
import { createConnectionLimit } from '#base/concurrency/connection-limit.ts'
import type { Log } from '#base/log.ts'
import { Problem } from '#base/problem.ts'
import { createRateLimitedLog } from '#base/rate-limited-log.ts'
import type { PlainSettings } from '#config/settings.ts'
import { type Forwarded, peerOf } from './forwarded.ts'

type Dependencies = {
  settings: Pick<
    PlainSettings,
    'httpConnections' | 'httpUnauthenticated' | 'httpUnauthenticatedPerAddress'
  >
  forwarded: Forwarded
  /** Writes a response to a socket, and closes it. */
  respond: (socket: Socket, problem: Problem) => void
  log: Log
}

/** The client of a request. The principal is set as soon as it is known, for the request log. */
export type Caller = {
  address: string
  principal: Principal | undefined
  /** Counts the connection as the principal's. Throws `too_many_connections`. */
  own?: (principal: Principal) => void
}

/** What a connection holds, or a request that a trusted proxy forwards: a permit, or a place of its user. */
type Client = {
  address: string
  isClosed: boolean
  isIdle: boolean
  permit?: Disposable | undefined
  user?: { key: string; place: Disposable } | undefined
}

// A property, since entries of a WeakMap slow down every garbage collection.
const client = Symbol('client')

type Limited<T> = T & { [client]?: Client }

const retryAfterSeconds = 10

export type ClientLimits = ReturnType<typeof createClientLimits>

/**
 * Limits connections, as SSH does. A connection counts against its address until one of its requests has authenticated,
 * and from then on against the user of the latest one. Behind a trusted proxy, requests are counted instead of connections.
 */
export function createClientLimits({ settings, forwarded, respond, log }: Dependencies) {
  const logLimited = createRateLimitedLog(log)
  const limit = createConnectionLimit({
    connections: settings.httpConnections,
    unauthenticated: settings.httpUnauthenticated,
    unauthenticatedPerAddress: settings.httpUnauthenticatedPerAddress,
    refuse: (socket) => respond(socket, tooMany('There are too many connections.')),
    onRefused: (address) => logLimited({ address }, 'http connection refused: too many'),
  })

  /** Serves a client when it has a permit. */
  function serveLater(
    newcomer: Client,
    { socket, serve }: { socket: Socket; serve: () => void },
  ): void {
    const { address } = newcomer
    const onRevoked = () => socket.destroy()
    const isIdle = () => newcomer.isIdle
    void limit.authenticating({ address, onRevoked, isIdle }).then((permit) => {
      newcomer.permit = permit
      if (newcomer.isClosed) release(newcomer)
      else if (permit) serve()
      else limit.refuse(socket, address)
    })
  }

  function connect(socket: Limited<Socket>, serve: () => void): void {
    socket.on('error', () => {})
    if (!limit.accept(socket)) return
    if (forwarded.isProxy(socket)) {
      serve()
      return
    }
    const newcomer = createClient(peerOf(socket))
    socket[client] = newcomer
    socket.once('close', () => close(newcomer))
    serveLater(newcomer, { socket, serve })
  }

  function own(holder: Client, principal: Principal): void {
    const key = limitKeyOf(principal)
    if (holder.user?.key === key || holder.isClosed) return
    const place = limit.ofUser(key)
    if (place === 'per-key') throw tooMany('You have too many connections; close some.')
    if (place === 'overall') throw tooMany('There are too many connections.')
    release(holder)
    holder.user = { key, place }
  }

  return {
    /** Makes a server serve only connections within the limits. */
    guard(server: Server): Server {
      const serves = server.listeners('connection')
      server.removeAllListeners('connection')
      return server.on('connection', (socket: Socket) =>
        connect(socket, () => {
          for (const serve of serves) serve.call(server, socket)
        }),
      )
    },

    /** Makes a listener serve only requests within the limits. */
    limited(listener: RequestListener): RequestListener {
      return (request: Limited<IncomingMessage>, response) => {
        const { socket }: { socket: Limited<Socket> } = request
        const connected = socket[client]
        if (connected) {
          if (connected.permit) trackIdle(connected, response)
          return listener(request, response)
        }
        const newcomer = createClient(forwarded.addressOf(request))
        request[client] = newcomer
        response.once('close', () => close(newcomer))
        serveLater(newcomer, { socket, serve: () => listener(request, response) })
      }
    },

    /** The caller of a request, whose user gets the connection when it is known. */
    callerOf(request: Limited<IncomingMessage>): Caller {
      const { socket }: { socket: Limited<Socket> } = request
      const holder = socket[client] ?? request[client]
      return {
        address: holder?.address ?? forwarded.addressOf(request),
        principal: undefined,
        own: (principal) => {
          if (holder) own(holder, principal)
        },
      }
    },
  }
}

function createClient(address: string): Client {
  return { address, isClosed: false, isIdle: false }
}

function trackIdle(connected: Client, response: ServerResponse): void {
  connected.isIdle = false
  response.once('close', () => {
    connected.isIdle = true
  })
}

function close(holder: Client): void {
  holder.isClosed = true
  release(holder)
}

function release(holder: Client): void {
  holder.permit?.[Symbol.dispose]()
  holder.user?.place[Symbol.dispose]()
  holder.permit = undefined
  holder.user = undefined
}

function tooMany(detail: string): Problem {
  return new Problem('too_many_connections', detail, { retryAfterSeconds })
}
