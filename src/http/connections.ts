import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Problem } from '../base/problem.ts'

// For how long, and how much of, the rest of a refused body is read and discarded: a sender that has sent all
// it has, or reads meanwhile, gets the response; anything longer ends with the connection.
const lingerMs = 5000
const lingerMaxBytes = 4 * 1024 * 1024

/**
 * Makes a server that closes end each connection when its last answer has been sent. Node by itself cuts
 * off answers that are complete but still on their way, and keeps connections open after their answer.
 */
export function closeGently(server: Server): void {
  const requests = new Map<Socket, number>()
  let closing = false

  function change(socket: Socket, by: 1 | -1): void {
    const count = (requests.get(socket) ?? 0) + by
    if (!socket.destroyed) requests.set(socket, count)
    if (closing && count === 0) socket.destroySoon()
  }

  server.on('connection', (socket: Socket) => {
    requests.set(socket, 0)
    socket.on('close', () => requests.delete(socket))
  })
  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    change(socket, 1)
    response.on('close', () => change(socket, -1))
  })
  // Called by Node when the server closes.
  server.closeIdleConnections = () => {
    closing = true
    for (const [socket, count] of requests) if (count === 0) socket.destroy()
  }
}

/** Whether a client waits for a `100 Continue` before it sends its body: RFC 9110, section 10.1.1. */
export function expectsContinue(request: IncomingMessage): boolean {
  return /100-continue/i.test(request.headers.expect ?? '')
}

/** Whether there may be more of a request's body to come. */
export function isUnread(request: IncomingMessage): boolean {
  return !request.complete
}

/**
 * Whether the body of a request that is answered so may never come, or is more than is worth reading, so that
 * nothing can follow it on its connection.
 */
export function isGivenUp(request: IncomingMessage, status: number): boolean {
  if (!isUnread(request)) return false
  const declared = Number(request.headers['content-length'] ?? 0)
  const isTooLong = status === 413 || declared > lingerMaxBytes
  return isTooLong || expectsContinue(request) || status === 408
}

/**
 * Lets a connection that is to close after its response close for writing only. Node by itself closes it
 * altogether, and the system then resets a connection on which something is unread: the response could be lost.
 */
export function closeAfterReading({ socket }: IncomingMessage): void {
  socket.destroySoon = () => socket.end()
}

/**
 * Discards what has arrived of an unread body. Once a request is read from, Node does not discard its rest without a
 * limit when the response ends; `discardRest` has limits.
 */
export function discardArrived(request: IncomingMessage): void {
  request.read()
}

/**
 * Reads and discards what is left of a body whose response is sent, within limits. A sender that is cut off at
 * once would lose the response, one that is read to the end could send for ever.
 */
export function discardRest(request: IncomingMessage): void {
  if (!isUnread(request)) return
  const { socket } = request
  let left = lingerMaxBytes
  const timer = setTimeout(() => {
    // A later request on the same connection is none of this one's business.
    if (!request.complete) socket.destroy()
  }, lingerMs)
  request.on('data', (chunk: Buffer) => {
    left -= chunk.length
    if (left < 0) socket.destroy()
  })
  request.on('end', () => {
    clearTimeout(timer)
    if (socket.writableEnded) socket.destroy()
  })
  request.on('close', () => clearTimeout(timer))
  request.resume()
}

export type Departures = ReturnType<typeof createDepartures>

/** Aborts the requests of clients that disconnect early, and on demand all that are left. */
export function createDepartures() {
  const open = new Set<AbortController>()
  let isOver = false
  return {
    /** Aborted when the client of an answer is gone or given up, or by the caller. */
    controllerOf(response: ServerResponse): AbortController {
      const gone = new AbortController()
      const onClose = () => {
        open.delete(gone)
        if (response.writableFinished) return
        gone.abort(new Problem('malformed_request', 'The client went away before it was answered.'))
      }
      open.add(gone)
      if (isOver) gone.abort()
      if (response.closed) onClose()
      response.on('close', onClose)
      return gone
    },

    /** Gives up all clients there are and that come. */
    giveUp(): void {
      isOver = true
      for (const gone of open) gone.abort()
    },
  }
}
