import { Problem } from '../base/problem.ts'
import type { Body } from './body.ts'
import { firstPacket } from './pkt-line.ts'
import { malformedRequest, requestsIn } from './requests.ts'

/**
 * Reads what a client of git-upload-archive(1) asks for: a packet `argument <value>` for each argument, then a
 * flush packet. Paths that lead out of the repository are refused here, since git would tell where it is.
 */
export async function readArchiveRequest(body: Body, maxBytes: number): Promise<Buffer> {
  const { value: request } = await requestsIn(body, maxBytes).next()
  if (!request) throw malformedRequest()
  let hasOptions = true
  for (const argument of argumentsIn(request)) {
    const isOption = hasOptions && argument.startsWith('-')
    if (/^--(end-of-options)?$/.test(argument)) hasOptions = false
    if (!isOption && leadsOut(argument)) {
      throw new Problem('malformed_git_request', `"${argument}" is outside of the repository.`)
    }
  }
  return request
}

function* argumentsIn(request: Buffer): Generator<string> {
  let rest = request
  for (;;) {
    const found = firstPacket(rest)
    if (typeof found !== 'object') throw malformedRequest()
    if (found.packet.kind !== 'data') return
    const [, argument] = /^argument (.*?)\n?$/s.exec(found.packet.payload.toString()) ?? []
    if (argument === undefined) throw malformedRequest()
    yield argument
    rest = rest.subarray(found.length)
  }
}

// gitglossary, "pathspec": a path may come after words of magic.
function leadsOut(pathspec: string): boolean {
  const path = pathspec.replace(/^:(\([^)]*\)|[/!^]*:?)/, '')
  return path.startsWith('/') || path.split('/').includes('..')
}
