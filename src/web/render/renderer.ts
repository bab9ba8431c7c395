import { extname } from 'node:path'
import { LRUCache } from 'lru-cache'
import { createKeyedMutex } from '#base/concurrency/keyed-mutex.ts'
import { createSingleFlight } from '#base/concurrency/single-flight.ts'
import {
  createWorkerThread,
  WorkerStartError,
  WorkerThreadError,
} from '#base/concurrency/worker-thread.ts'
import type { Log } from '#base/log.ts'
import { type Html, trusted } from './html.ts'
import type { RenderRequest, RenderResponse } from './render-worker.ts'

/** Renders files in a thread. Undefined where there is no renderer for a file, or it took too long: show it as text. */
export type Renderer = AsyncDisposable & {
  /** The key names the file and everything else that the result depends on. `onBusy` is called if it is none only this time. */
  render: (key: string, request: RenderRequest, onBusy?: () => void) => Promise<Html | undefined>
}

const renderProgram = new URL(`./render-worker${extname(import.meta.url)}`, import.meta.url)
const limits = { maxOldGenerationSizeMb: 96, maxYoungGenerationSizeMb: 16, stackSizeMb: 4 }
const mib = 1024 * 1024
const cacheMaxLength = 8 * mib
type Options = {
  log: Pick<Log, 'error'>
  program?: URL
  timeoutMs?: number
  idleMs?: number
  maxWaiting?: number
}

/** Of a result that is only known to be none. */
const noneLength = 100

/**
 * Creates a renderer. Its thread renders one file at a time, so that no file can block the server or exhaust its memory;
 * what took too long is remembered. It starts with the first file, and ends when there was none for a while.
 */
export function createRenderer({
  log,
  program = renderProgram,
  timeoutMs = 200,
  idleMs = 2 * 60_000,
  maxWaiting = 32,
}: Options): Renderer {
  const thread = createWorkerThread({ program, timeoutMs, limits })
  const results = new LRUCache<string, { html: Html | undefined }>({
    maxSize: cacheMaxLength,
    sizeCalculation: ({ html }, key) => key.length + (html?.text.length ?? noneLength),
  })
  const mutex = createKeyedMutex()
  const share = createSingleFlight<Html | undefined>()
  let waiting = 0
  let isClosed = false
  let idle: NodeJS.Timeout | undefined

  async function work(key: string, request: RenderRequest): Promise<Html | undefined> {
    if (isClosed) return undefined
    try {
      // Both ends belong to this program.
      const response = (await thread.request(request)) as RenderResponse
      const html = response === undefined ? undefined : trusted(response)
      results.set(key, { html })
      return html
    } catch (error) {
      if (!(error instanceof WorkerThreadError)) throw error
      if (isClosed) return undefined
      // Not the fault of the file, so nothing is remembered of it.
      if (error instanceof WorkerStartError) log.error({ err: error }, 'render thread not started')
      else results.set(key, { html: undefined })
      return undefined
    }
  }

  async function queue(key: string, request: RenderRequest): Promise<Html | undefined> {
    // Shown as text this time, rather than late.
    if (waiting >= maxWaiting) return undefined
    waiting += 1
    clearTimeout(idle)
    try {
      return await mutex('thread', () => work(key, request))
    } finally {
      waiting -= 1
      if (waiting === 0 && !isClosed)
        idle = setTimeout(() => void mutex('thread', () => thread.end()), idleMs).unref()
    }
  }

  return {
    async render(key, request, onBusy) {
      const known = results.get(key)
      if (known) return known.html
      const html = await share(key, () => queue(key, request))
      if (html === undefined && !results.has(key)) onBusy?.()
      return html
    },

    async [Symbol.asyncDispose]() {
      isClosed = true
      clearTimeout(idle)
      await thread.end()
    },
  }
}
