import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { SerializedJson } from '#http/route.ts'

/** A result that may be more complete later: it is not cached, and has an entity tag of its own. */
export class ProvisionalJson extends SerializedJson {
  readonly entityTag: string

  constructor(value: unknown, nextCursor?: string) {
    super(toJson(value), nextCursor)
    this.entityTag = keyOf(['provisional', this.bytes.toString('latin1')])
  }
}

/** The response, or undefined when it is a provisional one that the client has. */
export function unlessKnown(
  response: SerializedJson,
  notModified: (entityTag: string) => boolean,
): SerializedJson | undefined {
  const isKnown = response instanceof ProvisionalJson && notModified(response.entityTag)
  return isKnown ? undefined : response
}

/**
 * Caches responses by what they depend on: the id of the repository, ids of objects, and options. Access is checked
 * before. The work of concurrent calls with the same key is shared, and aborted when all callers are gone.
 */
export type CachedResponses = (
  key: string,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<unknown>,
) => Promise<SerializedJson>

/** A response with a link to the next page, if there is one. */
export class LinkedPage {
  readonly body: unknown
  readonly nextCursor: string | undefined

  constructor(body: unknown, nextCursor: string | undefined) {
    this.body = body
    this.nextCursor = nextCursor
  }
}

type Work = { result: Promise<SerializedJson>; callers: number; controller: AbortController }

// A few large responses should not displace all others.
const maxShare = 0.25

export function createCachedResponses({ maxBytes }: { maxBytes: number }): CachedResponses {
  const results = new LRUCache<string, SerializedJson>({
    maxSize: Math.max(1, maxBytes),
    maxEntrySize: Math.max(1, Math.floor(maxBytes * maxShare)),
    sizeCalculation: ({ bytes }, key) => bytes.length + key.length,
  })
  const inFlight = new Map<string, Work>()

  function start(key: string, work: (signal: AbortSignal) => Promise<unknown>): Work {
    const controller = new AbortController()
    const result = work(controller.signal).then((value) => {
      if (value instanceof ProvisionalJson) return value
      const serialized = value instanceof SerializedJson ? value : toSerializedJson(value)
      results.set(key, serialized)
      return serialized
    })
    const started = { result, callers: 0, controller }
    inFlight.set(key, started)
    const end = () => {
      if (inFlight.get(key) === started) inFlight.delete(key)
    }
    result.then(end, end)
    return started
  }

  return async (key, signal, work) => {
    const cached = results.get(key)
    if (cached) return cached
    signal.throwIfAborted()
    const shared = inFlight.get(key) ?? start(key, work)
    shared.callers += 1
    const leave = () => {
      shared.callers -= 1
      if (shared.callers > 0) return
      // A later call starts anew.
      if (inFlight.get(key) === shared) inFlight.delete(key)
      shared.controller.abort(signal.reason)
    }
    signal.addEventListener('abort', leave, { once: true })
    try {
      return await shared.result
    } finally {
      signal.removeEventListener('abort', leave)
    }
  }
}

/** Serializes a response, or a page of one with its link. */
export function toSerializedJson(value: unknown): SerializedJson {
  const { body, nextCursor } =
    value instanceof LinkedPage ? value : new LinkedPage(value, undefined)
  return new SerializedJson(toJson(body), nextCursor)
}

function toJson(value: unknown): Buffer {
  return Buffer.from(`${JSON.stringify(value)}\n`)
}

/** A key of what a response depends on, which is also its entity tag. */
export function keyOf(parts: readonly (string | number | boolean)[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url')
}
