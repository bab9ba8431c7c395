import { Problem } from '../base/problem.ts'

/** What a client had git do, and what came of it: `refused` was answered with a Problem. */
export type Operation = {
  kind: 'offer' | 'list' | 'fetch' | 'archive' | 'push'
  outcome: 'done' | 'failed' | 'refused' | 'cut_off'
  seconds: number
}

export type Measure = ReturnType<typeof createMeasure>

/** Makes functions tell of each of their calls. They return git's exit code, null if it was killed, or an offer. */
export function createMeasure(onOperation: (operation: Operation) => void) {
  return function measure<V extends unknown[], R>(
    kind: Operation['kind'],
    act: (...values: V) => Promise<R>,
  ) {
    return async (...values: V): Promise<R> => {
      const startedAt = performance.now()
      const end = (outcome: Operation['outcome']) =>
        onOperation({ kind, outcome, seconds: (performance.now() - startedAt) / 1000 })
      try {
        const result = await act(...values)
        end(
          result === null
            ? 'cut_off'
            : typeof result === 'number' && result !== 0
              ? 'failed'
              : 'done',
        )
        return result
      } catch (error) {
        end(error instanceof Problem ? 'refused' : 'failed')
        throw error
      }
    }
  }
}
