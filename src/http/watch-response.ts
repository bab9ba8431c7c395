import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import type { Access, AccessWatch } from '../access/access-watch.ts'
import type { Problem } from '../base/problem.ts'
import { eventStreamType } from './server-sent-events.ts'

type Options = {
  accessWatch: Pick<AccessWatch, 'watch'>
  access: Access
  /** Aborted when the access is lost. */
  gone: AbortController
}

// How long a client that does not read has to receive the reason for the end of its event stream.
const lingerMs = 1000

/** Ends a response when its caller loses access, until it is closed. */
export function watchResponse(response: ServerResponse, { accessWatch, access, gone }: Options) {
  let lost: Problem | undefined
  let source: Readable | undefined
  const watch = accessWatch.watch(access, (problem) => {
    lost = problem
    if (response.headersSent) cutOff(response, source, problem)
    gone.abort(problem)
  })
  response.once('close', () => watch[Symbol.dispose]())
  if (response.closed) watch[Symbol.dispose]()

  return {
    require: watch.require,

    /** The result of a handler; rejects with the problem if access was lost meanwhile. */
    async orLost(handled: Promise<unknown>): Promise<unknown> {
      const answer = await handled.catch((error) => {
        throw lost ?? error
      })
      if (answer instanceof Readable) source = answer
      if (!lost) return answer
      source?.destroy()
      throw lost
    },
  }
}

// An event stream ends with a comment that gives the reason. Any other response must not appear complete.
function cutOff(
  response: ServerResponse,
  source: Readable | undefined,
  { message }: Problem,
): void {
  const isEventStream = response.getHeader('content-type') === eventStreamType
  if (!isEventStream || !source || response.writableEnded) {
    response.destroy()
    return
  }
  // The source writes whole events only, so the comment stands between two.
  source.unpipe(response)
  response.end(`: ${message}\n\n`)
  const timer = setTimeout(() => response.destroy(), lingerMs)
  response.once('close', () => clearTimeout(timer))
}
