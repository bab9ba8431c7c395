import { createBackoff } from '#base/concurrency/backoff.ts'
import type { Log } from '#base/log.ts'
import type { Sensitive } from '#base/sensitive.ts'
import { pause } from '#base/timeouts.ts'
import type { Claim, ClaimBody } from '../runner-api/runner-api.ts'
import { RunnerError } from './runner-folder.ts'
import {
  describeError,
  isWorthRetrying,
  RefusedRequestError,
  requestBackoff,
  type ServerClient,
  UnexpectedResponseError,
} from './server-client.ts'

const waitSeconds = 25
const graceMs = 10_000
const minIntervalMs = 200
const maxLeaseSeconds = 86_400
const methodStatuses = new Set([404, 405])
const requestStatuses = new Set([400, 413, 415, 422])

type Options = {
  client: ServerClient
  server: URL
  token: Sensitive<string>
  runner: Omit<ClaimBody, 'waitSeconds'>
  log: Log
}

/** Claims runs from the server. */
export function createClaims({ client, server, token, runner, log }: Options) {
  const backoff = createBackoff(requestBackoff)
  let hasResponded = false
  let lastError = ''

  function onResponse(): void {
    backoff.reset()
    if (!hasResponded) log.info({ server: server.href }, 'runner waiting for runs')
    else if (lastError !== '') log.info({ server: server.href }, 'server responds again')
    hasResponded = true
    lastError = ''
  }

  async function onError(error: unknown, signal: AbortSignal): Promise<void> {
    const runnerError = toRunnerError(error, { server, version: runner.version, hasResponded })
    if (runnerError) throw runnerError
    const text = describeError(error)
    // Logged once, not for every retry.
    if (text !== lastError) {
      log.warn({ server: server.href, reason: text }, 'server cannot be reached; will retry')
    }
    lastError = text
    await backoff.pause(signal, error instanceof RefusedRequestError ? error.retryAfterMs : 0)
  }

  return {
    /** Waits for the next run. Throws a RunnerError for a problem that retries cannot solve. */
    async next(signal: AbortSignal): Promise<Claim> {
      for (;;) {
        signal.throwIfAborted()
        const sentAt = performance.now()
        // The first request does not wait, so that a wrong URL or token is noticed at once.
        const wait = hasResponded ? waitSeconds : 0
        try {
          const timeoutMs = wait * 1000 + graceMs
          const body = JSON.stringify({ ...runner, waitSeconds: wait } satisfies ClaimBody)
          const path = '/runner/claim'
          const response = await client.request({
            method: 'POST',
            path,
            token,
            body,
            timeoutMs,
            signal,
          })
          onResponse()
          if (response !== undefined) return toClaim(response)
        } catch (error) {
          signal.throwIfAborted()
          await onError(error, signal)
          continue
        }
        // In case the server does not wait.
        if (wait > 0) await pause(sentAt + minIntervalMs - performance.now(), signal)
      }
    },
  }
}

type ServerState = { server: URL; version: string; hasResponded: boolean }

/** The error with what the operator must do; undefined for an error that may be transient. */
function toRunnerError(error: unknown, state: ServerState): RunnerError | undefined {
  const { server, version, hasResponded } = state
  const detail = describeError(error)
  if (error instanceof UnexpectedResponseError) {
    return new RunnerError(
      `svc ${version} does not understand the response of ${server.href}: ${detail} Use the same version of svc for both.`,
    )
  }
  if (!(error instanceof RefusedRequestError) || isWorthRetrying(error)) return undefined
  const { status, isOfService } = error
  if (isOfService && status === 401) {
    return new RunnerError(
      `${server.href} does not accept the token. Create one on the server with: svc tokens create --permission runner`,
    )
  }
  if (isOfService && status === 403) {
    return new RunnerError(
      `The token may not run workflows: ${detail} Create one on the server with: svc tokens create --permission runner`,
    )
  }
  if (isOfService && requestStatuses.has(status)) {
    return new RunnerError(
      `${server.href} does not understand svc ${version}: ${detail} Use the same version of svc for both.`,
    )
  }
  // While the server is down, a proxy may respond for it.
  if (hasResponded && !isOfService) return undefined
  return new RunnerError(
    methodStatuses.has(status)
      ? `${server.href} has no runner API. Check the address; the server must be svc of the same version, ${version}.`
      : `${server.href} is not an svc server. ${detail} Check the address.`,
  )
}

function toClaim(response: unknown): Claim {
  const { claimToken, leaseSeconds, plan } = Object(response)
  const { runId, commit, files, limits } = Object(plan)
  const isClaim =
    typeof claimToken === 'string' &&
    Number.isSafeInteger(leaseSeconds) &&
    leaseSeconds > 0 &&
    leaseSeconds <= maxLeaseSeconds &&
    typeof runId === 'string' &&
    typeof commit === 'string' &&
    Array.isArray(files) &&
    typeof limits === 'object'
  if (!isClaim) throw new UnexpectedResponseError('Its response to a claim has another format.')
  return { claimToken, leaseSeconds, plan }
}
