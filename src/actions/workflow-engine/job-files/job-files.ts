import { extname } from 'node:path'
import { createWorkerThread, WorkerThreadError } from '#base/concurrency/worker-thread.ts'
import { orAborted } from '#base/timeouts.ts'
import type { Workspace } from '../../sandbox/sandbox.ts'
import type { Scope } from '../../workflow-parser/expressions/scope.ts'
import type { FileRequest, FileResponse } from './file-worker.ts'
import type { HashAllowance } from './hash-matching-files.ts'

/**
 * Finds and hashes files of a job by patterns, in a thread of the job: what that costs is up to users, and the runner
 * has other runs.
 */
export type JobFiles = AsyncDisposable & {
  /** The hashFiles() of expressions, which must be evaluated by `evaluate`. */
  hashFiles: Scope['hashFiles']
  /** Evaluates expressions, again and again until all hashes that they ask for are there. */
  evaluate: <T>(work: () => T) => Promise<T>
  /** Must be called when files may have changed. */
  forgetHashes: () => void
  /** The indexes of the names that match. Names and patterns are relative to the same folder. */
  match: (names: readonly string[], patterns: readonly string[]) => Promise<number[]>
}

const program = new URL(`./file-worker${extname(import.meta.url)}`, import.meta.url)
const threadLimits = { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 16, stackSizeMb: 4 }
const requestTimeoutMs = 10_000

/** How much all calls of hashFiles() in a job may read. */
const jobAllowance: HashAllowance = { entries: 1_000_000, bytes: 1024 ** 3 }

/** How deep calls of hashFiles() may depend on the results of others. */
const maxRounds = 8

export function createJobFiles(
  { inside, outside }: Pick<Workspace, 'inside' | 'outside'>,
  signal: AbortSignal,
): JobFiles {
  const thread = createWorkerThread({ program, timeoutMs: requestTimeoutMs, limits: threadLimits })
  let allowance = jobAllowance
  let hashes = new Map<string, { hash: string } | { fault: string }>()
  const missing = new Map<string, string[]>()
  // The thread takes one request at a time.
  let last: Promise<unknown> = Promise.resolve()

  function request(message: FileRequest): Promise<FileResponse> {
    const response = last.then(async () => {
      try {
        // Both ends belong to this program.
        return (await orAborted(thread.request(message), signal)) as FileResponse
      } catch (error) {
        if (!(error instanceof WorkerThreadError)) throw error
        const fault = `the search for the files ${error.message}; use fewer wildcards.`
        // Unknown is how much was read, so nothing else may be.
        return { fault, allowance: { entries: 0, bytes: 0 } }
      }
    })
    last = response.catch(() => {})
    return response
  }

  async function hash(patterns: string[]): Promise<{ hash: string } | { fault: string }> {
    const { workspace: folder } = outside
    const response = await request({ patterns, workspace: inside.workspace, folder, allowance })
    if ('matches' in response) throw new TypeError('The thread confused two requests.')
    allowance = response.allowance ?? allowance
    return response
  }

  return {
    hashFiles(patterns) {
      const key = JSON.stringify(patterns)
      const known = hashes.get(key)
      if (known === undefined) missing.set(key, patterns)
      else if ('fault' in known) throw new Error(known.fault)
      return known?.hash ?? ''
    },

    async evaluate(work) {
      for (let round = 0; round < maxRounds; round++) {
        missing.clear()
        const result = Promise.try(work)
        const wanted = [...missing]
        if (wanted.length === 0) return result
        // With empty texts in place of hashes, it may have failed for that alone.
        await result.catch(() => {})
        for (const [key, patterns] of wanted) hashes.set(key, await hash(patterns))
      }
      throw new Error('Calls of hashFiles() depend on too many others.')
    },

    forgetHashes() {
      hashes = new Map()
    },

    async match(names, patterns) {
      const response = await request({
        patterns: [...patterns],
        workspace: '',
        names: Buffer.from(names.map((name) => `${name}\0`).join('')),
      })
      if ('fault' in response) throw new Error(sentence(response.fault))
      return 'matches' in response ? response.matches : []
    },

    [Symbol.asyncDispose]: () => thread.end(),
  }
}

function sentence(fault: string): string {
  return fault.charAt(0).toUpperCase() + fault.slice(1)
}
