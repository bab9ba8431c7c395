import { printable } from '#base/format.ts'
import { Problem } from '#base/problem.ts'
import { firstPacket } from './pkt-line.ts'
import type { Body } from './request-body.ts'
import { malformedRequest, requestsIn } from './requests.ts'

/** Options of git-archive(1) that read only the repository and write only the archive. */
const plainOptions = /^(-[0-9]|-l|--list|-v|--verbose)$/
const optionsWithValue = /^--(format|prefix|mtime)$/
const optionWithItsValue = /^--(format|prefix|mtime)=/
const shownMaxLength = 100

/**
 * Reads a request for git-upload-archive(1): a packet `argument <value>` for each argument, then a flush packet. Throws a
 * Problem for an option that is not allowed, since some read files of the server, and for a path outside of the
 * repository, since git's own message would reveal the repository's directory.
 */
export async function readArchiveRequest(body: Body, maxBytes: number): Promise<Buffer> {
  const { value: request } = await requestsIn(body, maxBytes).next()
  if (!request) throw malformedRequest()
  let hasOptions = true
  let isValue = false
  for (const argument of argumentsIn(request)) {
    if (isValue) {
      isValue = false
    } else if (hasOptions && argument.startsWith('-')) {
      isValue = optionsWithValue.test(argument)
      if (/^--(end-of-options)?$/.test(argument)) hasOptions = false
      else requireAllowed(argument)
    } else if (leadsOut(argument)) {
      throw new Problem('malformed_git_request', `${shown(argument)} is outside of the repository.`)
    }
  }
  return request
}

// Git also accepts abbreviated options and combined letters; these are rejected, and can be written in full.
function requireAllowed(option: string): void {
  const isAllowed = [plainOptions, optionsWithValue, optionWithItsValue].some((allowed) =>
    allowed.test(option),
  )
  if (isAllowed) return
  throw new Problem(
    'malformed_git_request',
    `git archive does not support the option ${shown(option)} on this server; supported are --format, --prefix, --mtime, --list, --verbose and -0 to -9.`,
  )
}

function* argumentsIn(request: Buffer): Generator<string> {
  let rest = request
  for (;;) {
    const found = firstPacket(rest)
    if (typeof found !== 'object') throw malformedRequest()
    if (found.packet.kind === 'flush') return
    if (found.packet.kind !== 'data') throw malformedRequest()
    const [, argument] = /^argument (.*?)\n?$/s.exec(found.packet.payload.toString()) ?? []
    // Git would truncate an argument at a NUL.
    if (argument === undefined || argument.includes('\0')) throw malformedRequest()
    yield argument
    rest = rest.subarray(found.length)
  }
}

// gitglossary, "pathspec": magic words may precede the path.
function leadsOut(pathspec: string): boolean {
  const path = pathspec.replace(/^:(\((?:\\.|[^\\)])*\)|[/!^]*:?)/s, '')
  return path.startsWith('/') || path.split('/').includes('..')
}

function shown(argument: string): string {
  return `"${printable(argument).slice(0, shownMaxLength)}"`
}
