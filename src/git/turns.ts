import { Problem } from '../base/problem.ts'

type Options = {
  overall: number
  perKey: number
  /** How many may wait; further ones are refused. */
  waiting: number
  waitMs: number
}

type Waiter = { key: string; start: () => void }

/** Limits how much work runs at once, overall and for each key; what is too much waits for its turn. */
export function createTurns({ overall, perKey, waiting, waitMs }: Options) {
  const running = new Map<string, number>()
  const queue: Waiter[] = []
  let total = 0

  function isFree(key: string): boolean {
    return total < overall && (running.get(key) ?? 0) < perKey
  }

  function occupy(key: string): void {
    total += 1
    running.set(key, (running.get(key) ?? 0) + 1)
  }

  function release(key: string): void {
    total -= 1
    const left = (running.get(key) ?? 1) - 1
    if (left === 0) running.delete(key)
    else running.set(key, left)
    const next = queue.findIndex((waiter) => isFree(waiter.key))
    if (next !== -1) queue.splice(next, 1)[0]?.start()
  }

  function toTurn(key: string): Disposable {
    return { [Symbol.dispose]: () => release(key) }
  }

  return {
    /** Waits for a turn, which lasts until it is disposed of. Throws `git_busy` when it would wait too long. */
    take(key: string, signal: AbortSignal): Promise<Disposable> {
      if (isFree(key)) {
        occupy(key)
        return Promise.resolve(toTurn(key))
      }
      if (queue.length >= waiting || signal.aborted) return Promise.reject(busy(waitMs))
      return new Promise((resolve, reject) => {
        const waiter: Waiter = {
          key,
          start() {
            settle()
            occupy(key)
            resolve(toTurn(key))
          },
        }
        const giveUp = () => {
          settle()
          queue.splice(queue.indexOf(waiter), 1)
          reject(busy(waitMs))
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

function busy(waitMs: number): Problem {
  return new Problem(
    'git_busy',
    'Too many clones and fetches are running; try again in a moment.',
    {
      retryAfterSeconds: Math.ceil(waitMs / 1000),
    },
  )
}
