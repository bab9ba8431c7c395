import { extname } from 'node:path'
import { createWorkerThread, WorkerThreadError } from '#base/concurrency/worker-thread.ts'
import type { CheckRequest, CheckResponse } from './check-worker.ts'

const program = new URL(`./check-worker${extname(import.meta.url)}`, import.meta.url)
const limits = { maxOldGenerationSizeMb: 100, maxYoungGenerationSizeMb: 16, stackSizeMb: 4 }

/** Creates a thread that parses files. */
export function createCheckThread({ timeoutMs }: { timeoutMs: number }) {
  const thread = createWorkerThread({ program, timeoutMs, limits })
  return {
    end: thread.end,

    /** Throws CheckError when the thread fails or exceeds its time or memory. */
    async check(request: CheckRequest): Promise<CheckResponse> {
      try {
        // Both ends belong to this program.
        return (await thread.request(request)) as CheckResponse
      } catch (error) {
        throw error instanceof WorkerThreadError ? new CheckError(error.message) : error
      }
    },
  }
}

/** Why a check failed; the message continues "The check of this file". */
export class CheckError extends Error {
  override readonly name = 'CheckError'
}
