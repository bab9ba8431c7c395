import { setTimeout as pause } from 'node:timers/promises'
import { Problem } from '#base/problem.ts'
import type { Repositories } from '#repositories/repositories.ts'
import type { ApiWrite } from './api-push.ts'

// A ref that moves again each time is left to the client.
const maxAttempts = 8
/** The longest pause before the second attempt; each further one may be twice as long, so that writers take turns. */
const firstPauseMs = 10

/** Attempts a change again when its ref has moved meanwhile, if the client did not say what the ref must be. */
export async function retryMoved<T>(
  repositories: Pick<Repositories, 'reopen'>,
  write: ApiWrite,
  mayRetry: boolean,
  attempt: (write: ApiWrite) => Promise<T>,
): Promise<T> {
  let current = write
  for (let number = 1; ; number++) {
    try {
      return await attempt(current)
    } catch (error) {
      const isMoved = error instanceof Problem && error.code === 'ref_moved'
      if (!isMoved || !mayRetry || number === maxAttempts) throw error
      const pauseMs = Math.random() * firstPauseMs * 2 ** (number - 1)
      await pause(pauseMs, undefined, { signal: write.signal })
      const { principal, repository } = write
      current = {
        ...write,
        repository: await repositories.reopen(principal, repository, 'repo:write'),
      }
    }
  }
}
