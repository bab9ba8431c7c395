import type { Principal } from '../access/principal.ts'
import { Problem } from '../base/problem.ts'

const maxPerToken = 100
const maxOverall = 1000
const retryAfterSeconds = 10

/** Limits the requests that wait for events, since each holds a connection for as long as its client likes. */
export function createSubscriberLimit() {
  const byToken = new Map<string, number>()
  let overall = 0

  return {
    /** Counts one more request of a token, until disposed. Throws `too_many_followers`. */
    acquire({ id }: Principal): Disposable {
      const own = byToken.get(id) ?? 0
      if (own >= maxPerToken) throw tooMany(`A token can have ${maxPerToken} requests`)
      if (overall >= maxOverall) throw tooMany(`The server can have ${maxOverall} requests`)
      byToken.set(id, own + 1)
      overall++
      return {
        [Symbol.dispose]() {
          const left = (byToken.get(id) ?? 0) - 1
          if (left > 0) byToken.set(id, left)
          else byToken.delete(id)
          overall--
        },
      }
    },
  }
}

function tooMany(limit: string): Problem {
  const detail = `${limit} waiting for events; end one, or request events without \`wait\` and \`follow\`.`
  return new Problem('too_many_followers', detail, { retryAfterSeconds })
}
