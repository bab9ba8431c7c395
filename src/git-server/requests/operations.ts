import { problemIn, problems } from '#base/problem.ts'

/** A Git operation of a client. `refused` means a Problem that is not the server's fault. */
export type Operation = {
  kind: 'advertisement' | 'ls-refs' | 'object-info' | 'fetch' | 'archive' | 'push'
  outcome: 'done' | 'failed' | 'refused' | 'cut_off'
  seconds: number
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
      const end = (outcome: Operation['outcome']) =>
        onOperation({ kind, outcome, seconds: (performance.now() - startedAt) / 1000 })
      try {
        const result = await act(...values)
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
