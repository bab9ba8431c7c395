import { EventEmitter } from 'node:events'
import { finished } from 'node:stream/promises'
import { LRUCache } from 'lru-cache'
import type { Clock } from '#base/clock.ts'
import type { FreeSpace } from '#config/free-space.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { PipeEnd, ResponseSink } from '#git/protocol/pipe-process.ts'
import type { FetchSource } from '../requests/operations.ts'
import type { CacheKey } from './cache-key.ts'
import { type CacheUsage, createCacheStore } from './cache-store.ts'
import { createResponsePipe, type ResponsePipe, type ResponseReader } from './response-pipe.ts'
import { createSpool } from './spooled-bytes.ts'

export type ResponseCache = Disposable & {
  /**
   * Writes the response for a key to a sink: from the cache, from an identical request in flight, or from the producer.
   * A request without a key is not cacheable. Resolves with how the git process that produced the response ended.
   */
  fetch: (
    key: CacheKey | undefined,
    sink: ResponseSink,
    producer: ResponseProducer,
  ) => Promise<PipeEnd>
  count: () => CacheUsage
}

/** Produces a response that is not in the cache. */
export type ResponseProducer = {
  /** Waits for a permit; the signal is also aborted when another request starts to produce the same response. */
  acquire: (signal: AbortSignal) => Promise<Disposable>
  produce: (sink: ResponseSink) => Promise<PipeEnd>
}

type Dependencies = {
  settings: Pick<PlainSettings, 'dataDir' | 'fetchCacheBytes' | 'fetchCacheSeconds'>
  freeSpace: Pick<FreeSpace, 'isShort' | 'require'>
  clock: Clock
  /** Called for each fetch. */
  onFetch: (source: FetchSource) => void
}

const maxSeen = 4096
const sweepIntervalMs = 60_000

/**
 * Caches upload-pack responses. Identical concurrent requests share one git process; a response requested twice is
 * stored, and so is a shallow clone at its first request: the jobs of a build request the same one again. The key covers everything the response depends on, so entries never need invalidating.
 */
export function createResponseCache(dependencies: Dependencies): ResponseCache {
  const { settings, freeSpace, clock, onFetch } = dependencies
  const spool = createSpool({ dataDir: settings.dataDir, freeSpace })
  const store = createCacheStore({
    maxBytes: settings.fetchCacheBytes,
    maxAgeMs: settings.fetchCacheSeconds * 1000,
    clock,
  })
  const inFlight = new Map<string, ResponsePipe>()
  const starts = new EventEmitter().setMaxListeners(0)
  // Recent keys. The response to a `large` one exceeds the size limit, so storing it is not tried again.
  const seen = new LRUCache<string, 'once' | 'repeated' | 'large'>({
    maxSize: maxSeen,
    sizeCalculation: () => 1,
  })
  const sweeping = setInterval(() => void store.sweep(), sweepIntervalMs).unref()

  function note({ id, isShallowClone }: CacheKey): void {
    const before = seen.get(id)
    const first = isShallowClone ? 'repeated' : 'once'
    seen.set(id, before === 'once' ? 'repeated' : (before ?? first))
  }

  /** Finds or starts a response. A reader is opened at once: the response may be evicted a moment later. */
  async function openReader(
    key: CacheKey,
    producer: ResponseProducer,
    signal: AbortSignal,
  ): Promise<{ source: FetchSource; reader: ResponseReader }> {
    for (;;) {
      const stored = store.find(key.id)
      if (stored) return { source: 'hit', reader: stored.read() }
      const running = inFlight.get(key.id)
      if (running?.isComplete()) return { source: 'coalesced', reader: running.read() }
      const permit = await acquireUnlessStarted(key.id, producer, signal)
      if (!permit) continue
      if (!store.find(key.id) && !inFlight.get(key.id)?.isComplete())
        return { source: 'miss', reader: start(key, producer, permit).read() }
      permit[Symbol.dispose]()
    }
  }

  /** Waits for a permit; undefined when another request starts the same response meanwhile. */
  async function acquireUnlessStarted(
    id: string,
    producer: ResponseProducer,
    signal: AbortSignal,
  ): Promise<Disposable | undefined> {
    const started = new AbortController()
    const stopWaiting = () => started.abort()
    starts.on(id, stopWaiting)
    try {
      return await producer.acquire(AbortSignal.any([signal, started.signal]))
    } catch (error) {
      if (started.signal.aborted && !signal.aborted) return undefined
      throw error
    } finally {
      starts.off(id, stopWaiting)
    }
  }

  /** Starts a response, which is ended when its last reader leaves. The caller must open a reader at once. */
  function start(key: CacheKey, producer: ResponseProducer, permit: Disposable): ResponsePipe {
    const isRepeated = seen.get(key.id) === 'repeated'
    const pipe = createResponsePipe({ spool, maxBytes: store.maxEntryBytes, isRepeated })
    const remove = () => {
      if (inFlight.get(key.id) === pipe) inFlight.delete(key.id)
    }
    inFlight.set(key.id, pipe)
    pipe.unread.addEventListener('abort', remove, { once: true })
    starts.emit(key.id)
    const ended = run(key, pipe, producer, permit).catch(pipe.fail)
    void ended.finally(() => {
      remove()
      if (pipe.size() > store.maxEntryBytes) seen.set(key.id, 'large')
    })
    return pipe
  }

  async function run(
    key: CacheKey,
    pipe: ResponsePipe,
    { produce }: ResponseProducer,
    permit: Disposable,
  ): Promise<void> {
    using _permit = permit
    using _hold = pipe.hold()
    const ended = await produce({
      output: pipe.output,
      signal: pipe.unread,
      onBegin() {},
      onProgress() {},
    })
    await finished(pipe.output.end())
    pipe.end(ended)
    if (ended.exitCode === 0 && pipe.isComplete())
      await store.put(key, pipe, { isRepeated: seen.get(key.id) === 'repeated' })
  }

  return {
    async fetch(key, sink, producer) {
      if (!key) {
        onFetch('bypassed')
        using _permit = await producer.acquire(sink.signal)
        return await producer.produce(sink)
      }
      note(key)
      const { source, reader } = await openReader(key, producer, sink.signal)
      onFetch(source)
      using _reader = reader
      return await reader.copyTo(sink)
    },

    count: store.count,

    [Symbol.dispose]() {
      clearInterval(sweeping)
      store.clear()
    },
  }
}
