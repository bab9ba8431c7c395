import { limitKeyOf, type Principal } from '#access/principal.ts'
import { createQuota } from '#base/concurrency/quota.ts'
import { Problem } from '#base/problem.ts'

const maxPerUser = 100
const maxOverall = 1000
const retryAfterSeconds = 10

/** Limits the requests that wait for events, since each holds a connection for as long as its client likes. */
export function createSubscriberLimit() {
  const quota = createQuota({ overall: maxOverall, perKey: maxPerUser })

  return {
    /** Counts one more request of a user, until disposed. Throws `too_many_followers`. */
    acquire(principal: Principal): Disposable {
      const place = quota.acquire(limitKeyOf(principal))
      if (place === 'per-key') throw tooMany(`A user can have ${maxPerUser} requests`)
      if (place === 'overall') throw tooMany(`The server can have ${maxOverall} requests`)
      return place
    },
  }
}

function tooMany(limit: string): Problem {
  const detail = `${limit} waiting for events; end one, or request events without \`wait\` and \`follow\`.`
  return new Problem('too_many_followers', detail, { retryAfterSeconds })
}
