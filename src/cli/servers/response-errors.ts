import type { IncomingHttpHeaders } from 'node:http'
import { codeOf } from '#base/error-code.ts'
import { printable } from '#base/format.ts'
import { CommandError } from '../terminal/command-errors.ts'

type FailedResponse = { url: string; status: number; headers: IncomingHttpHeaders; text: string }
type ProblemBody = { code: string; detail: string; errors: string[] }

/** The error of a response: problem details (RFC 9457), or what else an address can answer. */
export function explainProblem({ url, status, headers, text }: FailedResponse): CommandError {
  const problem = parseProblem(text)
  if (!problem) {
    const isProxy = [502, 503, 504].includes(status)
    const reason = isProxy
      ? 'its proxy does not reach the server; try again later'
      : 'not as svc does; check the address of the server'
    return new CommandError('unreachable', `${url} responds with status ${status}, ${reason}.`)
  }
  if (problem.code === 'route_not_found') {
    return new CommandError(
      'failure',
      `${url} does not have this operation: the server runs an older version of svc than this client.`,
    )
  }
  if (status === 401) {
    const advice = `Log in again: svc login ${url}`
    return new CommandError('unauthorized', `${toSentence(problem)} ${advice}`)
  }
  const retry = headers['retry-after']
  const advice = retry && /^\d+$/.test(retry) ? ` Try again in ${retry} seconds.` : ''
  return new CommandError('failure', `${toSentence(problem)}${advice}`)
}

function toSentence({ detail, errors }: ProblemBody): string {
  return printable([detail, ...errors].join(' '))
}

function parseProblem(text: string): ProblemBody | undefined {
  try {
    const { code, detail, title, errors } = JSON.parse(text)
    if (typeof code !== 'string') return undefined
    const details: unknown[] = Array.isArray(errors) ? errors.map((one) => one?.detail) : []
    const sentence = typeof detail === 'string' && detail !== '' ? detail : String(title ?? code)
    return {
      code,
      detail: sentence,
      // The detail often has the first of them.
      errors: details.filter(
        (one): one is string => typeof one === 'string' && !sentence.includes(one),
      ),
    }
  } catch {
    return undefined
  }
}

const unknownAuthority =
  'its certificate is signed by an authority that this machine does not know; if it is yours, set NODE_EXTRA_CA_CERTS to the file of its certificate'

/** Reasons by error code of the system, of OpenSSL, and of the HTTP parser. */
const reasons: Record<string, string> = {
  ECONNREFUSED: 'nothing listens there; check the address, and that the server runs',
  ENOTFOUND: 'there is no host with this name',
  EAI_AGAIN: 'the name of the host cannot be resolved now; check the network',
  EHOSTUNREACH: 'the host cannot be reached; check the network',
  ENETUNREACH: 'the network cannot be reached',
  ETIMEDOUT: 'the connection timed out',
  ECONNRESET: 'the connection was closed; try again',
  EPIPE: 'the connection was closed; try again',
  DEPTH_ZERO_SELF_SIGNED_CERT: unknownAuthority,
  SELF_SIGNED_CERT_IN_CHAIN: unknownAuthority,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: unknownAuthority,
  UNABLE_TO_GET_ISSUER_CERT: unknownAuthority,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: unknownAuthority,
  CERT_HAS_EXPIRED: 'its certificate has expired; the server needs a new one',
  CERT_NOT_YET_VALID: 'its certificate is not valid yet; check the clock of this machine',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another host name; check the address',
  EPROTO: 'it does not speak TLS there; does the address begin with http://?',
  ERR_SSL_WRONG_VERSION_NUMBER: 'it does not speak TLS there; does the address begin with http://?',
  HPE_INVALID_CONSTANT: 'it does not speak HTTP there; check the port',
}

/** Explains in one sentence why a server was not reached. */
export function explainConnection(url: string, error: unknown): CommandError {
  if (error instanceof CommandError) return error
  const code = codeOf(error) ?? ''
  // Connections to several addresses of one host fail together.
  const inner = error instanceof AggregateError ? codeOf(error.errors[0]) : undefined
  const reason = reasons[code] ?? reasons[inner ?? ''] ?? toReason(code, error)
  return new CommandError('unreachable', `${url} cannot be reached: ${reason}.`, { cause: error })
}

function toReason(code: string, error: unknown): string {
  if (code.startsWith('HPE_')) return 'it does not speak HTTP there; check the port'
  if (code.startsWith('ERR_SSL_')) return 'the TLS handshake failed'
  return printable(error instanceof Error ? error.message : String(error))
}
