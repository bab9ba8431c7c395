import { problemIn, problems } from '#base/problem.ts'
import type { Body } from '#git/protocol/request-body.ts'

/** A Git operation of a client. `refused` means a Problem that is not the server's fault. */
export type Operation = {
  kind: 'advertisement' | 'ls-refs' | 'object-info' | 'fetch' | 'archive' | 'push'
  outcome: 'done' | 'failed' | 'refused' | 'cut_off'
  seconds: number
  /** What was transferred, except to the API. */
  transfer?: { repositoryId: string; receivedBytes: number; sentBytes: number }
}

/**
 * Where a response came from: the cache (`hit`), an in-flight response to another client (`coalesced`) or a git process
 * of its own (`miss`). A `bypassed` one is not cacheable, and one of stored `packs` needs no cache.
 */
export type FetchSource = 'hit' | 'coalesced' | 'miss' | 'bypassed' | 'packs'

/** Wraps a function that returns a RequestOutcome, and reports each call. */
export type Measure = <V extends unknown[], R>(
  kind: Operation['kind'],
  act: (...values: V) => Promise<R>,
) => (...values: V) => Promise<R>

export function createMeasure(onOperation: (operation: Operation) => void): Measure {
  return function measure(kind, act) {
    return async (...values) => {
      const startedAt = performance.now()
      const counted = countTransfer(values)
      const end = (outcome: Operation['outcome']) => {
        const seconds = (performance.now() - startedAt) / 1000
        const transfer = counted?.read()
        onOperation({ kind, outcome, seconds, ...(transfer && { transfer }) })
      }
      try {
        const result = await act(...(counted?.values ?? values))
        if (result === null) end('cut_off')
        else if (result === 'refused') end('refused')
        else end(typeof result === 'number' && result !== 0 ? 'failed' : 'done')
        return result
      } catch (error) {
        end(outcomeOf(error, values))
        throw error
      }
    }
  }
}

/**
 * Counts the body and the response of a Git request among the values of a call. Returns the values, of which the body is
 * another one; undefined when there is no request with a counted response.
 */
function countTransfer<V extends unknown[]>(values: V) {
  const request = values.find(isCountedRequest)
  if (!request) return undefined
  const { repository, response } = request
  const sentBefore = response.sentBytes()
  let receivedBytes = 0
  async function* count(body: Body): Body {
    for await (const chunk of body) {
      receivedBytes += chunk.length
      yield chunk
    }
  }
  const counted = values.map((value) => {
    if (Buffer.isBuffer(value)) receivedBytes += value.length
    return isBody(value) ? count(value) : value
  })
  return {
    // A body is replaced by a body.
    values: counted as V,
    read: () => ({
      repositoryId: repository.id,
      receivedBytes,
      sentBytes: response.sentBytes() - sentBefore,
    }),
  }
}

type CountedRequest = { repository: { id: string }; response: { sentBytes: () => number } }

function isCountedRequest(value: unknown): value is CountedRequest {
  const { repository, response } = Object(value)
  return repository !== undefined && typeof response?.sentBytes === 'function'
}

function isBody(value: unknown): value is Body {
  return typeof Object(value)[Symbol.asyncIterator] === 'function'
}

// A request's signal is aborted when its client disconnects or stalls.
function outcomeOf(error: unknown, values: unknown[]): Operation['outcome'] {
  if (values.some((value) => signalIn(value)?.aborted)) return 'cut_off'
  const problem = problemIn(error)
  const isRefused = problem && problems[problem.code].kind !== 'internal'
  return isRefused ? 'refused' : 'failed'
}

function signalIn(value: unknown): AbortSignal | undefined {
  const isObject = typeof value === 'object' && value !== null
  return isObject && 'signal' in value && value.signal instanceof AbortSignal
    ? value.signal
    : undefined
}
