import type { ServerResponse } from 'node:http'
import { createPoller, type Poller } from '#base/concurrency/poller.ts'
import type { Sessions } from '#identity/sessions/sessions.ts'

// As often as the access to what a response shows.
const recheckIntervalMs = 600

/** Ends responses that are still being sent when their session ends: one query a session, however many responses it has. */
export function createSessionWatch({ open }: Pick<Sessions, 'open'>) {
  const watched = new Map<string, Set<ServerResponse>>()
  let poller: Poller | undefined

  async function checkAll(): Promise<void> {
    if (watched.size === 0) {
      void poller?.[Symbol.asyncDispose]()
      poller = undefined
    }
    for (const [secret, responses] of watched) {
      // A database that cannot be reached ends no session.
      const isLost = await open(secret).then(
        (session) => session === undefined,
        () => false,
      )
      if (isLost) for (const response of responses) response.destroy()
    }
  }

  function remove(secret: string, response: ServerResponse): void {
    const responses = watched.get(secret)
    responses?.delete(response)
    if (responses?.size === 0) watched.delete(secret)
  }

  return {
    add(secret: string, response: ServerResponse): void {
      if (response.closed) return
      const responses = watched.get(secret) ?? new Set()
      watched.set(secret, responses.add(response))
      response.once('close', () => remove(secret, response))
      poller ??= createPoller({
        intervalMs: recheckIntervalMs,
        run: checkAll,
        onError(error) {
          throw error
        },
      })
    },
  }
}
