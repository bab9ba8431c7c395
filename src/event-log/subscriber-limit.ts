import type { Principal } from '../access/principal.ts'
import { Problem } from '../base/problem.ts'

const perTokenAtMost = 100
const overallAtMost = 1000
const retryAfterSeconds = 10

/** Counts the requests that wait for events; each holds a connection, for as long as its client likes. */
export function createSubscriberLimit() {
  const byToken = new Map<string, number>()
  let overall = 0

  return {
    /** Counts one more of a token, until it is disposed of. Throws `too_many_followers`. */
    enter({ id }: Principal): Disposable {
      const own = byToken.get(id) ?? 0
      if (own >= perTokenAtMost) throw tooMany(`A token may have ${perTokenAtMost} requests`)
      if (overall >= overallAtMost) throw tooMany(`The server lets ${overallAtMost} requests`)
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
  const detail = `${limit} wait for events at a time; end one, or ask without waiting.`
  return new Problem('too_many_followers', detail, { retryAfterSeconds })
}
