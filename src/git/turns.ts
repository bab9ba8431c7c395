import { Problem } from '../base/problem.ts'

export type Turns = ReturnType<typeof createTurns>

type Options = {
  overall: number
  /** How many of them one key may have: a repository, a token. Nobody gets all, unless there is but one. */
  perKey: number
  /** How many may wait; further ones are refused. */
  waiting: number
  waitMs: number
}

type Waiter = { keys: string[]; start: () => void }

/** Limits how much work runs at once, overall and for each key; what is too much waits for its turn. */
export function createTurns({ overall, perKey, waiting, waitMs }: Options) {
  const most = Math.max(1, Math.min(perKey, Math.floor((overall * 3) / 4)))
  const running = new Map<string, number>()
  const queue: Waiter[] = []
  let total = 0

  function isFree(keys: string[]): boolean {
    return total < overall && keys.every((key) => (running.get(key) ?? 0) < most)
  }

  function occupy(keys: string[]): Disposable {
    total += 1
    for (const key of keys) running.set(key, (running.get(key) ?? 0) + 1)
    return { [Symbol.dispose]: () => release(keys) }
  }

  function release(keys: string[]): void {
    total -= 1
    for (const key of keys) {
      const left = (running.get(key) ?? 1) - 1
      if (left === 0) running.delete(key)
      else running.set(key, left)
    }
    const next = queue.findIndex((waiter) => isFree(waiter.keys))
    if (next !== -1) queue.splice(next, 1)[0]?.start()
  }

  return {
    /** How many have their turn, and how many wait for it. */
    counts: () => ({ running: total, waiting: queue.length }),

    /** Waits for a turn, which lasts until it is disposed of. Throws `git_busy` when it would wait too long. */
    take(keys: string[], signal: AbortSignal): Promise<Disposable> {
      if (isFree(keys)) return Promise.resolve(occupy(keys))
      if (queue.length >= waiting || signal.aborted) return Promise.reject(busy())
      return new Promise((resolve, reject) => {
        const waiter: Waiter = {
          keys,
          start() {
            settle()
            resolve(occupy(keys))
          },
        }
        const giveUp = () => {
          settle()
          queue.splice(queue.indexOf(waiter), 1)
          reject(busy())
        }
        const timer = setTimeout(giveUp, waitMs)
        function settle() {
          clearTimeout(timer)
          signal.removeEventListener('abort', giveUp)
        }
        signal.addEventListener('abort', giveUp)
        queue.push(waiter)
      })
    },
  }
}

const retryAfterSeconds = 10

function busy(): Problem {
  const detail = 'Too many clones, fetches, pushes and imports are running; try again in a moment.'
  return new Problem('git_busy', detail, { retryAfterSeconds })
}
