import type { IncomingMessage } from 'node:http'
import { requireAllRepositories, requirePermission } from '#access/may.ts'
import type { Permission } from '#access/permissions.ts'
import {
  type Authenticate,
  anonymousFrom,
  limitKeyOf,
  type Origin,
  type Principal,
} from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import { createRateLimiter } from '#base/concurrency/rate-limiter.ts'
import { Problem, type ProblemKind, problems } from '#base/problem.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Caller } from '../connection/client-limits.ts'
import type { FindRequest } from '../route.ts'
import { createAuthentication, type Scheme, tokenRequired } from './authentication.ts'

/** What a route requires of its callers. */
type Requirements = {
  scheme: Scheme
  /**
   * Called once the request is authenticated, since Git's streams derive it from their query, and a query that is not valid
   * is named only to callers with a token. Undefined where any token is accepted, `run` where only that of a run is.
   */
  permission: () => Permission | 'run' | undefined
  /** Finds what the path names, and checks the caller's access to it. */
  find: ((request: FindRequest) => Promise<unknown>) | undefined
  params: Record<string, string>
  /** Whether tokens that are limited to some repositories are accepted where `find` does not judge them. */
  allowsLimited: boolean
  /** Whether a public repository may be read without a token. */
  allowsAnonymous?: boolean
  /** Whether tokens of SSH keys are accepted, which are only for Git LFS; `expired` also accepts those of the last day. */
  allowsKeys?: boolean | 'expired'
  /** How its changes are recorded in the audit log. */
  via: Origin['via']
  /** Whether the requests of a user are limited; Git requests have limiters of their own. */
  isRateLimited: boolean
}

/** A caller with its permission, and what `find` returned. */
type Admitted = {
  principal: Principal
  permission: Permission | undefined
  found: unknown
}

/** The headers of a request, or the caller of a page, which its session has authenticated. */
type Credentials = Pick<IncomingMessage, 'headers'> | { pageCaller: Principal }

/**
 * Admits a request: authenticates its token, checks the rate and the permission, and finds what the path names. Nothing
 * else of a request is looked at before, so a forbidden caller gets no validation errors. Throws Problems.
 */
export type Admit = (
  request: Credentials,
  caller: Caller,
  requirements: Requirements,
) => Promise<Admitted>

type Dependencies = {
  settings: Pick<PlainSettings, 'badTokensPerMinute' | 'requestsPerSecond' | 'requestBurst'>
  authenticate: Authenticate
  clock: Clock
}

/** The one way in for API and Git requests, and for people who log in. */
export type Admission = {
  admit: Admit
  /** Returns the principal of a token that was given otherwise than in a header, with the same limit of invalid ones. */
  authenticate: (token: string, address: string) => Promise<Principal>
  /** Limits the rate of requests without a token from an address. Throws `too_many_requests`. */
  limitUnknown: (address: string) => void
  /** Counts an invalid login code, or the Problem of one, like an invalid token; returns the Problem. */
  countInvalid: (address: string, invalid: string | Problem) => Problem
}

export function createAdmission({ settings, authenticate, clock }: Dependencies): Admission {
  const { badTokensPerMinute, requestsPerSecond, requestBurst } = settings
  const { identify, countInvalid } = createAuthentication({
    authenticate,
    badTokensPerMinute,
    clock,
  })
  const requests = createRateLimiter({ perSecond: requestsPerSecond, burst: requestBurst, clock })

  function limitRate(principal: Principal): void {
    const retryAfterSeconds = requests.acquire(limitKeyOf(principal))
    if (retryAfterSeconds <= 0) return
    const detail = `A user may make ${requestsPerSecond} requests a second.`
    throw new Problem('too_many_requests', detail, { retryAfterSeconds })
  }

  const admit: Admit = async (credentials, caller, requirements) => {
    const { scheme, find, params, allowsLimited, allowsKeys, isRateLimited, via } = requirements
    const isPage = 'pageCaller' in credentials
    if (requirements.allowsAnonymous && !isPage && credentials.headers.authorization === undefined)
      return admitAnonymous(caller, requirements)
    const identified = isPage
      ? credentials.pageCaller
      : await identify(credentials.headers.authorization, caller.address, {
          scheme,
          allowsExpiredKeys: allowsKeys === 'expired',
        })
    const principal = { ...identified, origin: { via, address: caller.address } }
    caller.principal = principal
    caller.own?.(principal)
    // A page was counted once, by the rates of pages, and not for each operation of which it is made.
    if (isRateLimited && !isPage) limitRate(principal)
    const permission = requirements.permission()
    if (!isPage && !(allowsKeys && isOfKey(principal)))
      requireKind(principal, permission, find !== undefined)
    requireGranted(principal, { permission, find, allowsLimited })
    if (permission === undefined || permission === 'run')
      return { principal, permission: undefined, found: undefined }
    return { principal, permission, found: await find?.({ principal, permission, params }) }
  }

  /**
   * Limits requests without a token. Git sends its first request without one, so it gets the Problem of that, and those who
   * have a token are not hindered by others at their address. Git LFS tries again later.
   */
  function limitAnonymous(principal: Principal, { scheme, allowsKeys }: Requirements): void {
    try {
      limitRate(principal)
    } catch (error) {
      if (allowsKeys || !(error instanceof Problem)) throw error
      const detail = `Too many requests without a token come from this address. ${tokenRequired(scheme).message}`
      throw new Problem('token_required', detail, {
        retryAfterSeconds: error.retryAfterSeconds ?? 1,
      })
    }
  }

  /** Admits a request without a token to a public repository; any other gets the same Problem as without one. */
  async function admitAnonymous(caller: Caller, requirements: Requirements): Promise<Admitted> {
    const { scheme, find, params, via } = requirements
    const { address } = caller
    const principal = { ...anonymousFrom(address, false), origin: { via, address } }
    limitAnonymous(principal, requirements)
    try {
      const permission = requirements.permission()
      if (permission === 'run') throw tokenRequired(scheme)
      const reading = permission ?? 'repo:read'
      requirePermission(principal, reading)
      const found = await find?.({ principal, permission: reading, params })
      caller.principal = principal
      caller.own?.(principal)
      return { principal, permission, found }
    } catch (error) {
      const isRefusal = error instanceof Problem && refusals.has(problems[error.code].kind)
      throw isRefusal ? tokenRequired(scheme) : error
    }
  }

  return {
    admit,
    limitUnknown: (address) => limitRate(anonymousFrom(address, false)),
    authenticate: (token, address) => identify(`Bearer ${token}`, address, { scheme: 'bearer' }),
    countInvalid,
  }
}

/**
 * Throws the Problem of a principal whose permissions and limits rule an operation out, whichever repository it is about:
 * `permission_missing` or `token_limited`.
 */
export function requireGranted(
  principal: Principal,
  {
    permission,
    find,
    allowsLimited,
  }: Pick<Requirements, 'allowsLimited'> & {
    permission: ReturnType<Requirements['permission']>
    find: unknown
  },
): void {
  if (permission !== undefined && permission !== 'run') requirePermission(principal, permission)
  if (!find && !allowsLimited) requireAllRepositories(principal)
}

// What a request without a token must not learn.
const refusals = new Set<ProblemKind>(['forbidden', 'not-found', 'invalid'])

function isOfKey({ kind }: Pick<Principal, 'kind'>): boolean {
  return kind === 'ssh-key' || kind === 'anonymous'
}

// The token of a run is for reports on that run; no other route accepts it. That of a job is for its repository.
function requireKind(
  { kind }: Principal,
  permission: ReturnType<Requirements['permission']>,
  isOfRepository: boolean,
): void {
  if (permission === 'run') {
    if (kind === 'run') return
    throw new Problem('permission_missing', 'This requires the token of a run.')
  }
  const isJob = kind === 'job' || kind === 'workload'
  if (kind === 'token' || (isJob && isOfRepository)) return
  if (kind === 'runner' && permission === 'runner') return
  const detail = isJob
    ? 'The token of a job is valid only for requests about its repository.'
    : isOfKey({ kind })
      ? 'This token is valid only for Git LFS.'
      : 'The token of a run is valid only for that run.'
  throw new Problem('permission_missing', detail)
}
