import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { lingerMaxBytes, lingerMs } from '#base/linger.ts'
import { Problem } from '#base/problem.ts'

// Limits on reading the rest of a rejected body, so that its sender gets the response.

/**
 * Makes a closing server end each connection after its last response. Node itself cuts off responses that are complete
 * but not yet sent, and keeps the other connections open.
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

/** Whether more of the body may arrive. */
function isUnread(request: IncomingMessage): boolean {
  return !request.complete
}

/**
 * Whether a connection must close after this response, because the rest of the request's body may never arrive or is too
 * large to discard.
 */
function mustClose(request: IncomingMessage, status: number): boolean {
  if (!isUnread(request)) return false
  const declared = Number(request.headers['content-length'] ?? 0)
  const isTooLong = status === 413 || declared > lingerMaxBytes
  return isTooLong || expectsContinue(request) || status === 408
}

/**
 * Makes a connection close only for writing after its response. If Node closed it entirely, unread data would make the
 * system reset it, and the response could be lost.
 */
function closeAfterReading({ socket }: IncomingMessage): void {
  socket.destroySoon = () => socket.end()
}

/**
 * Discards the part of an unread body that has arrived. Without a read, Node would discard the rest without a limit when
 * the response ends; `discardRest` has limits.
 */
function discardArrived(request: IncomingMessage): void {
  request.read()
}

/** Prepares a response that is sent before all of the request's body was read. */
export function endUnread(
  request: IncomingMessage,
  response: ServerResponse,
  status: number,
): void {
  if (!isUnread(request)) return
  discardArrived(request)
  if (!mustClose(request, status)) return
  response.setHeader('connection', 'close')
  closeAfterReading(request)
}

/**
 * Discards the rest of a body after its response, within limits. A sender that is cut off at once would lose the
 * response; one that is read without a limit could send for ever.
 */
export function discardRest(request: IncomingMessage): void {
  if (!isUnread(request)) return
  const { socket } = request
  let left = lingerMaxBytes
  const timer = setTimeout(() => {
    // The connection may already serve a later request.
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

export type OpenRequests = ReturnType<typeof createOpenRequests>

/** Aborts requests whose clients disconnect before the response, and all others on demand. */
export function createOpenRequests() {
  const open = new Set<AbortController>()
  let isOver = false
  return {
    /** Creates a controller that is aborted when the client disconnects, and with all others. */
    controllerOf(response: ServerResponse): AbortController {
      const abortController = new AbortController()
      const onClose = () => {
        open.delete(abortController)
        if (response.writableFinished) return
        abortController.abort(
          new Problem('malformed_request', 'The client disconnected before the response.'),
        )
      }
      open.add(abortController)
      if (isOver) abortController.abort()
      if (response.closed) onClose()
      response.on('close', onClose)
      return abortController
    },

    /** Aborts all open and future requests. */
    abortAll(): void {
      isOver = true
      for (const abortController of open) abortController.abort()
    },
  }
}
