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

// What a client that does not read gets to read the reason why its stream of events ends.
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

    /** What a handler answers, unless access was lost meanwhile: then it rejects with that problem. */
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

// A stream of events says why it ends. Whatever else is cut off must not look complete.
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
  // Only whole events are written to it, so that this is between two.
  source.unpipe(response)
  response.end(`: ${message}\n\n`)
  const timer = setTimeout(() => response.destroy(), lingerMs)
  response.once('close', () => clearTimeout(timer))
}
