import type { Socket } from 'node:net'
import { Problem } from '../base/problem.ts'
import { problemContentType, statusOf, toProblemDocument } from './problem-response.ts'

/** The most bytes that the headers of a request may have. */
export const headersMaxBytes = 16 * 1024

/**
 * Answers a connection whose request Node could not parse. There is no route and no reply then, so the
 * answer is written by hand.
 */
export function answerClientError(error: Error & { code?: string }, socket: Socket) {
  if (error.code === 'ECONNRESET' || !socket.writable) return socket.destroy()
  const problem = toClientProblem(error.code)
  const content = JSON.stringify(toProblemDocument(problem))
  socket.end(
    `HTTP/1.1 ${statusOf(problem)} ${problem.code}\r\nContent-Type: ${problemContentType}\r\n` +
      `Content-Length: ${Buffer.byteLength(content)}\r\nConnection: close\r\n\r\n${content}`,
  )
}

function toClientProblem(code: string | undefined): Problem {
  if (code === 'HPE_HEADER_OVERFLOW') {
    return new Problem('headers_too_large', `Headers may have at most ${headersMaxBytes} bytes.`)
  }
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new Problem('request_timed_out', 'The request headers did not arrive in time.')
  }
  return new Problem('malformed_request', 'The request is not HTTP/1.1.')
}
