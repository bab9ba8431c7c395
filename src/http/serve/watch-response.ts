import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import type { Access, AccessWatch, WatchedResponse } from '#access/access-watch.ts'
import type { Problem } from '#base/problem.ts'
import { eventStreamType } from '../server-sent-events.ts'

type Options = {
  accessWatch: AccessWatch
  access: Access
  /** Aborted when access is lost. */
  abortController: AbortController
}

// How long a slow client has to receive the reason for the end of its event stream.
const lingerMs = 1000

/** Ends a response when its caller loses access. */
export class ResponseWatch implements WatchedResponse {
  readonly access: Access[]
  readonly #response: ServerResponse
  readonly #abortController: AbortController
  #lost: Problem | undefined
  #source: Readable | undefined
  #remove: (() => void) | undefined

  constructor(response: ServerResponse, { accessWatch, access, abortController }: Options) {
    this.access = [access]
    this.#response = response
    this.#abortController = abortController
    if (response.closed) return
    const handle = accessWatch.add(this)
    this.#remove = () => void accessWatch.remove(handle)
    response.on('close', this.#remove)
  }

  /** From now on, the response goes on without access. */
  remove(): void {
    this.#remove?.()
  }

  end(problem: Problem): void {
    this.#lost = problem
    if (this.#response.headersSent) cutOff(this.#response, this.#source, problem)
    this.#abortController.abort(problem)
  }

  /** Returns the result of a handler; rejects with the problem if access was lost meanwhile. */
  async guard(handled: Promise<unknown>): Promise<unknown> {
    try {
      const result = await handled
      if (result instanceof Readable) this.#source = result
      if (!this.#lost) return result
    } catch (error) {
      throw this.#lost ?? error
    }
    this.#source?.destroy()
    throw this.#lost
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
    // The system would keep sending buffered data, for seconds to a slow client.
    response.socket?.resetAndDestroy()
    return
  }
  // The source writes only whole events, so the comment does not split one.
  source.unpipe(response)
  response.end(`: ${message}\n\n`)
  const timer = setTimeout(() => response.destroy(), lingerMs)
  response.once('close', () => clearTimeout(timer))
}
