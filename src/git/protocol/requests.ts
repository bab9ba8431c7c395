import { printable } from '#base/format.ts'
import { type ObjectFormat, objectFormatNames, objectFormats } from '#base/object-id.ts'
import { Problem } from '#base/problem.ts'
import { firstPacket } from './pkt-line.ts'
import { type Body, tooLarge } from './request-body.ts'

/**
 * Splits a body into requests, each with its final flush packet: "Command Request" in
 * https://git-scm.com/docs/protocol-v2. A lone flush packet or the body's end is the end. Throws a Problem for a request
 * that is malformed or too large.
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

// Before the arguments of a command come its name, a few capabilities, and server options.
const capabilitiesMax = 4096

const commandMark = 'command='
const commonCapability = /^(object-format=sha(1|256)|agent=[\x20-\x7e]*)$/

/**
 * Checks the start of a version 2 command, up to its arguments or its end. A response-end packet there would make git
 * abort with an internal error. Throws a Problem when it is malformed, or of another object format than the repository.
 */
export function assertCommand(request: Buffer, ofRepository: ObjectFormat): void {
  let format = 'sha1'
  for (let at = 0, count = 0; count < capabilitiesMax; count++) {
    const found = firstPacket(request.subarray(at))
    if (typeof found !== 'object' || found.packet.kind === 'response-end') throw malformedRequest()
    if (found.packet.kind !== 'data') {
      if (format !== ofRepository) throw objectFormatProblem(ofRepository, format)
      return
    }
    const [, given] = /^object-format=(.*?)\n?$/.exec(found.packet.payload.toString('latin1')) ?? []
    format = given ?? format
    at += found.length
  }
  throw malformedRequest()
}

/** A version 2 command with its arguments, in latin1. */
type Command = { name: string; args: string[] }

/**
 * Parses a single version 2 command with no capabilities but those of every client. Undefined for anything else, also
 * for what is malformed or too long.
 */
export function parseCommand(input: Buffer, maxLines: number): Command | undefined {
  let name: string | undefined
  let isArgument = false
  const args: string[] = []
  for (let at = 0, lines = 0; lines < maxLines; lines++) {
    const found = firstPacket(input.subarray(at))
    if (typeof found !== 'object') return undefined
    at += found.length
    const { packet } = found
    if (packet.kind === 'data') {
      const line = packet.payload.toString('latin1').replace(/\n$/, '')
      if (isArgument) args.push(line)
      else if (name !== undefined && !commonCapability.test(line)) return undefined
      else if (name === undefined && !line.startsWith(commandMark)) return undefined
      else name ??= line.slice(commandMark.length)
    } else if (name === undefined) return undefined
    else if (packet.kind === 'flush') return at === input.length ? { name, args } : undefined
    else if (packet.kind !== 'delimiter' || isArgument) return undefined
    else isArgument = true
  }
  return undefined
}

/** Reads whether a client wants nothing after the advertisement: a flush packet. `body` is the whole body again. */
export async function readWish(body: Body): Promise<{ isNothing: boolean; body: Body }> {
  let begun = Buffer.alloc(0)
  while (firstPacket(begun) === 'incomplete') {
    const { value } = await body.next()
    if (!value) break
    begun = Buffer.concat([begun, value])
  }
  const found = firstPacket(begun)
  const isNothing = typeof found === 'object' && found.packet.kind === 'flush'
  return { isNothing, body: following(begun, body) }
}

async function* following(begun: Buffer, body: Body): Body {
  yield begun
  yield* body
}

function objectFormatProblem(ofRepository: ObjectFormat, ofClient: string): Problem {
  const known = objectFormats.find((format) => format === ofClient)
  const client = known ? objectFormatNames[known] : `"${printable(ofClient).slice(0, 20)}"`
  return new Problem(
    'malformed_git_request',
    `This repository has the object format ${objectFormatNames[ofRepository]}, and the client uses ${client}.`,
  )
}

/** The Problem for a request that cannot be parsed. */
export function malformedRequest(): Problem {
  return new Problem('malformed_git_request', 'The request does not follow the Git protocol.')
}
