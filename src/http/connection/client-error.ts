import { type IncomingMessage, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { Problem, toProblem } from '#base/problem.ts'
import { commonHeaders } from '../headers.ts'
import {
  problemContentType,
  problemHeaders,
  statusOf,
  toProblemDocument,
} from '../problem-response.ts'

export const headersMaxBytes = 16 * 1024

type ClientError = Error & { code?: string; rawPacket?: unknown; bytesParsed?: number }

/** The Problem of a request to an unknown address, or with a method that the address does not support. */
type MethodProblem = (url: string) => Promise<Problem>

/** Responds to requests that Node passes to no handler: writes the response to the socket, and closes it. */
export function createConnectionErrors(methodProblem: MethodProblem) {
  function respond(socket: Duplex, problem: Problem): void {
    const content = JSON.stringify(toProblemDocument(problem))
    const headers = Object.entries({
      'Content-Type': problemContentType,
      'Content-Length': Buffer.byteLength(content),
      Connection: 'close',
      ...Object.fromEntries(commonHeaders),
      ...problemHeaders(problem),
    }).map((pair) => `${pair.join(': ')}\r\n`)
    const status = statusOf(problem)
    const statusLine = `HTTP/1.1 ${status} ${STATUS_CODES[status]}`
    socket.end(`${statusLine}\r\n${headers.join('')}\r\n${content}`)
  }

  function respondLater(socket: Duplex, problem: Promise<Problem>): void {
    problem.then(
      (made) => respond(socket, made),
      (error) => respond(socket, toProblem(error)),
    )
  }

  return {
    /** Writes a response, and closes the connection. */
    respond,

    /** Rejects a request without exactly one `Host` header: RFC 9112, section 3.2. Returns whether it did. */
    rejectsHost(request: IncomingMessage): boolean {
      if (hasOneHost(request)) return false
      respond(request.socket, new Problem('malformed_request', 'A request needs one Host header.'))
      return true
    },

    /** Responds to requests that Node's parser rejects. */
    onClientError(error: ClientError, socket: Duplex): void {
      if (error.code === 'ECONNRESET' || !socket.writable) socket.destroy()
      else respondLater(socket, toClientProblem(error, methodProblem))
    },

    /** Rejects CONNECT (RFC 9110, section 9.3.6). */
    onConnect({ url = '' }: IncomingMessage, socket: Duplex): void {
      socket.on('error', () => socket.destroy())
      respondLater(socket, methodProblem(url))
    },
  }
}

async function toClientProblem(error: ClientError, methodProblem: MethodProblem): Promise<Problem> {
  if (error.code === 'HPE_HEADER_OVERFLOW') {
    return new Problem('headers_too_large', `Headers may have at most ${headersMaxBytes} bytes.`)
  }
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new Problem('request_timed_out', 'The request headers did not arrive in time.')
  }
  const target = error.code === 'HPE_INVALID_METHOD' ? targetOf(error) : undefined
  if (target !== undefined) return methodProblem(target)
  return new Problem('malformed_request', 'The request is not HTTP/1.1.')
}

// Node's parser rejects unknown methods, although any token is a method (RFC 9110, section 9.1).
const requestLine = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+ ([^ ]+) HTTP\/1\.[01]$/

/** The target of a request whose method Node's parser does not know. */
function targetOf({ rawPacket, bytesParsed = 0 }: ClientError): string | undefined {
  if (!Buffer.isBuffer(rawPacket)) return undefined
  const start = bytesParsed === 0 ? 0 : rawPacket.lastIndexOf('\n', bytesParsed - 1) + 1
  const end = rawPacket.indexOf('\r\n', start)
  return requestLine.exec(rawPacket.toString('latin1', start, end === -1 ? start : end))?.[1]
}

function hasOneHost({ rawHeaders, httpVersion }: IncomingMessage): boolean {
  let count = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]
    if (name?.length === 4 && name.toLowerCase() === 'host') count++
  }
  return count === 1 || (count === 0 && httpVersion === '1.0')
}
