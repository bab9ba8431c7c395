import type { Log } from '../base/log.ts'
import type { Sensitive } from '../base/sensitive.ts'
import { pause } from '../base/timeouts.ts'
import { createBackoff } from '../concurrency/backoff.ts'
import type { Claim, ClaimBody } from '../runner-api/runner-api.ts'
import { RunnerError } from './runner-fault.ts'
import {
  describeFault,
  isPassing,
  RefusedRequestError,
  requestBackoff,
  type ServerClient,
  UnexpectedResponseError,
} from './server-client.ts'

const waitSeconds = 25
const graceMs = 10_000
const leastMs = 200
const leaseMostSeconds = 86_400
const methodStatuses = new Set([404, 405])
const requestStatuses = new Set([400, 413, 415, 422])

type Options = {
  client: ServerClient
  server: URL
  token: Sensitive<string>
  runner: Omit<ClaimBody, 'waitSeconds'>
  log: Log
}

/** Asks the server for runs. */
export function createClaims({ client, server, token, runner, log }: Options) {
  const backoff = createBackoff(requestBackoff)
  let hasAnswered = false
  let lastFault = ''

  function onAnswer(): void {
    backoff.reset()
    if (!hasAnswered) log.info({ server: server.href }, 'the runner waits for runs')
    else if (lastFault !== '') log.info({ server: server.href }, 'the server answers again')
    hasAnswered = true
    lastFault = ''
  }

  async function onFault(error: unknown, signal: AbortSignal): Promise<void> {
    const fault = toRunnerFault(error, { server, version: runner.version, hasAnswered })
    if (fault) throw fault
    const text = describeFault(error)
    // A fault is told once, not as often as it is met.
    if (text !== lastFault) {
      const say = 'the server cannot be reached; it is tried again until it can'
      log.warn({ server: server.href, reason: text }, say)
    }
    lastFault = text
    await backoff.pause(signal, error instanceof RefusedRequestError ? error.retryAfterMs : 0)
  }

  return {
    /** Waits for the next run, for as long as it takes. Throws a RunnerFault when waiting is of no use. */
    async next(signal: AbortSignal): Promise<Claim> {
      for (;;) {
        signal.throwIfAborted()
        const askedAt = performance.now()
        // At first it is only seen whether the server is there and takes the token.
        const wait = hasAnswered ? waitSeconds : 0
        try {
          const timeoutMs = wait * 1000 + graceMs
          const body = JSON.stringify({ ...runner, waitSeconds: wait } satisfies ClaimBody)
          const path = '/runner/claim'
          const answer = await client.ask({ method: 'POST', path, token, body, timeoutMs, signal })
          onAnswer()
          if (answer !== undefined) return toClaim(answer)
        } catch (error) {
          signal.throwIfAborted()
          await onFault(error, signal)
          continue
        }
        // A server that does not wait is not asked without end.
        if (wait > 0) await pause(askedAt + leastMs - performance.now(), signal)
      }
    },
  }
}

type Known = { server: URL; version: string; hasAnswered: boolean }

/** What a person has to mend; undefined for what may pass by itself. */
function toRunnerFault(error: unknown, known: Known): RunnerError | undefined {
  const { server, version, hasAnswered } = known
  const said = describeFault(error)
  if (error instanceof UnexpectedResponseError) {
    return new RunnerError(
      `What ${server.href} answers is not what svc ${version} understands: ${said} Use the same version of svc for both.`,
    )
  }
  if (!(error instanceof RefusedRequestError) || isPassing(error)) return undefined
  const { status, isOfService } = error
  if (isOfService && status === 401) {
    return new RunnerError(
      `${server.href} does not accept the token. Make one on the server with: svc tokens create --permission runner`,
    )
  }
  if (isOfService && status === 403) {
    return new RunnerError(
      `The token may not run workflows: ${said} Make one that may, on the server, with: svc tokens create --permission runner`,
    )
  }
  if (isOfService && requestStatuses.has(status)) {
    return new RunnerError(
      `${server.href} does not understand svc ${version}: ${said} Use the same version of svc for both.`,
    )
  }
  // While a server is away, something before it may answer in its place.
  if (hasAnswered && !isOfService) return undefined
  return new RunnerError(
    methodStatuses.has(status)
      ? `${server.href} has no runner API. Check the address; the server must be svc of the same version, ${version}.`
      : `${server.href} does not answer as svc does. ${said} Check the address.`,
  )
}

function toClaim(answer: unknown): Claim {
  const { runToken, leaseSeconds, plan } = Object(answer)
  const { runId, commit, files, limits } = Object(plan)
  const isClaim =
    typeof runToken === 'string' &&
    Number.isSafeInteger(leaseSeconds) &&
    leaseSeconds > 0 &&
    leaseSeconds <= leaseMostSeconds &&
    typeof runId === 'string' &&
    typeof commit === 'string' &&
    Array.isArray(files) &&
    typeof limits === 'object'
  if (!isClaim) throw new UnexpectedResponseError('It hands out runs in another form.')
  return { runToken, leaseSeconds, plan }
}
