import { Problem } from '../problem.ts'
import { createFairQueue } from './fair-queue.ts'
import type { KeyState } from './key-index.ts'

export type FairLimiter = {
  /** How many permits are held, and how many requests wait. */
  counts: () => { running: number; waiting: number }
  /** Waits for a permit, which is released when disposed. Throws `git_busy` when the queue is full or the wait too long. */
  acquire: (keys: string[], signal: AbortSignal) => Promise<Disposable>
}

type Options = {
  /** How many permits there are. */
  overall: number
  /** How many permits one key may hold, such as a repository or a user; at most three quarters of all. */
  perKey: number
  /** How many requests may wait; further ones are rejected. */
  waiting: number
  /** How long a request may wait. */
  waitMs: number
}

/**
 * Limits concurrency overall and per key; requests beyond the limits wait in a bounded queue. Each request has a list
 * of keys, such as a user and a repository. A free permit goes to the user who holds the fewest, the next one to the
 * repository that holds the fewest, and so on; ties go round-robin. So a burst from one user or repository cannot starve
 * others. When the queue is full, the newest request of the heaviest user, then repository, is rejected.
 */
export function createFairLimiter({ overall, perKey, waiting, waitMs }: Options): FairLimiter {
  const queue = createFairQueue(Math.max(1, Math.min(perKey, Math.floor((overall * 3) / 4))))
  let running = 0

  function grant(states: KeyState[]): Disposable {
    running += 1
    queue.hold(states)
    return {
      [Symbol.dispose]() {
        running -= 1
        queue.release(states)
        serveWaiters()
      },
    }
  }

  function serveWaiters(): void {
    let isServed = true
    while (isServed && running < overall) isServed = queue.serveNext(grant)
  }

  /** Makes space in a full queue by rejecting the newest request of heavier keys; false when there are none. */
  function makeSpaceFor(states: KeyState[]): boolean {
    if (queue.size() < waiting) return true
    const waiter = queue.newestOfHeavier(states)
    waiter?.reject()
    return waiter !== undefined
  }

  function wait(states: KeyState[], signal: AbortSignal): Promise<Disposable> {
    return new Promise((resolve, reject) => {
      const rejectBusy = () => {
        end()
        reject(busy())
      }
      const queued = queue.add(states, {
        serve(permit) {
          end()
          resolve(permit)
        },
        reject: rejectBusy,
      })
      const timer = setTimeout(rejectBusy, waitMs)
      signal.addEventListener('abort', rejectBusy)
      function end() {
        queued[Symbol.dispose]()
        clearTimeout(timer)
        signal.removeEventListener('abort', rejectBusy)
      }
    })
  }

  return {
    counts: () => ({ running, waiting: queue.size() }),

    async acquire(keys, signal) {
      const states = queue.statesOf(keys)
      // All waiting requests are blocked by a limit, so this overtakes none that could run.
      if (signal.aborted) throw busy()
      if (running < overall && !queue.hasFull(states)) return grant(states)
      if (!makeSpaceFor(states)) throw busy()
      return wait(states, signal)
    },
  }
}

const retryAfterSeconds = 10

function busy(): Problem {
  const detail = 'Too many requests of this kind are running; try again in a moment.'
  return new Problem('git_busy', detail, { retryAfterSeconds })
}
