import { Problem } from '../../base/problem.ts'
import { firstPacket } from './pkt-line.ts'
import { type Body, tooLarge } from './request-body.ts'

/**
 * The requests that follow each other in a body, each with the flush packet that ends it: "Command
 * Request" in https://git-scm.com/docs/protocol-v2. A flush packet alone ends them all, and so does the
 * body's end. Throws a Problem for what is malformed or too large.
 */
export async function* requestsIn(
  body: Body,
  maxBytes: number,
): AsyncGenerator<Buffer, void, undefined> {
  let bytes = Buffer.alloc(0)
  let parsed = 0
  for (;;) {
    const found = firstPacket(bytes.subarray(parsed))
    if (found === 'malformed') throw malformedRequest()
    if (found === 'incomplete') {
      const { value } = await body.next()
      if (!value && bytes.length === 0) return
      if (!value) throw malformedRequest()
      bytes = Buffer.concat([bytes, value])
      continue
    }
    parsed += found.length
    if (parsed > maxBytes) throw tooLarge(maxBytes)
    if (found.packet.kind !== 'flush') continue
    if (parsed === found.length) return
    yield bytes.subarray(0, parsed)
    bytes = bytes.subarray(parsed)
    parsed = 0
  }
}

// What clients send before the arguments of a command: its name, a few capabilities, perhaps some server options.
const capabilitiesMax = 4096

/**
 * Checks how a command of version 2 begins, up to its arguments or its end. Git takes a response-end packet there
 * for a bug of its own, and aborts. Throws a Problem for what is malformed.
 */
export function assertCommand(request: Buffer): void {
  for (let at = 0, count = 0; count < capabilitiesMax; count++) {
    const found = firstPacket(request.subarray(at))
    if (typeof found !== 'object' || found.packet.kind === 'response-end') throw malformedRequest()
    if (found.packet.kind !== 'data') return
    const [, format = 'sha1'] =
      /^object-format=(.*?)\n?$/.exec(found.packet.payload.toString('latin1')) ?? []
    if (format !== 'sha1') throw objectFormatProblem()
    at += found.length
  }
  throw malformedRequest()
}

/** For a client whose repository is not of the object format that all have here. */
export function objectFormatProblem(): Problem {
  return new Problem(
    'malformed_git_request',
    'Repositories here are of the object format SHA-1; SHA-256 is not supported.',
  )
}

/** What a client is told whose request cannot be understood. */
export function malformedRequest(): Problem {
  return new Problem('malformed_git_request', "The request is not one of Git's protocol.")
}
