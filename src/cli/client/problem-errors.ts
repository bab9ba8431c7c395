import type { IncomingHttpHeaders } from 'node:http'
import { printable } from '#base/format.ts'
import { CommandError } from './command-error.ts'

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
