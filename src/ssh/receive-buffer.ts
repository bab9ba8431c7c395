// A small buffer occupies many times its length, so the contents of unread ones are copied into blocks.
const blockBytes = 8192
const smallBytes = blockBytes / 2

/**
 * Buffers the data that a client sends on a channel, for one reader. `onRead` is called with the number of bytes read,
 * by which the window may grow again.
 */
export function createReceiveBuffer(onRead: (bytes: number) => void) {
  const chunks: Buffer[] = []
  let state: 'open' | 'ended' | 'broken' = 'open'
  let isWaiting = false
  let hasBegun = false
  let discarding: { maxBytes: number; complete: () => void } | undefined
  let wake = () => {}
  let block = Buffer.alloc(0)
  let gathered: Buffer | undefined

  function add(chunk: Buffer): void {
    const used = gathered?.length ?? 0
    if (gathered && gathered === chunks.at(-1) && used + chunk.length <= block.length) {
      block.set(chunk, used)
      gathered = block.subarray(0, used + chunk.length)
      chunks[chunks.length - 1] = gathered
    } else if (chunks.length === 0 || chunk.length >= smallBytes) {
      chunks.push(chunk)
    } else {
      block = Buffer.allocUnsafeSlow(blockBytes)
      block.set(chunk)
      gathered = block.subarray(0, chunk.length)
      chunks.push(gathered)
    }
  }

  async function* read(signal: AbortSignal): AsyncGenerator<Buffer, void, undefined> {
    const stop = () => wake()
    signal.addEventListener('abort', stop)
    try {
      for (;;) {
        signal.throwIfAborted()
        const chunk = chunks.shift()
        if (chunk) {
          onRead(chunk.length)
          yield chunk
        } else if (state === 'ended') return
        else if (state === 'broken') throw new Error('The channel was closed before its end.')
        else await next()
      }
    } finally {
      signal.removeEventListener('abort', stop)
    }
  }

  async function next(): Promise<void> {
    isWaiting = true
    await new Promise<void>((resolve) => {
      wake = resolve
    })
    isWaiting = false
  }

  function drop(chunk: Buffer): void {
    if (!discarding) return
    onRead(chunk.length)
    discarding.maxBytes -= chunk.length
    if (discarding.maxBytes < 0) discarding.complete()
  }

  return {
    push(chunk: Buffer): void {
      hasBegun = true
      if (discarding) drop(chunk)
      else add(chunk)
      wake()
    },

    /**
     * Discards unread and further data until the client ends it or has sent more than `maxBytes`. Does not wait for a
     * client that has sent nothing.
     */
    discard(maxBytes: number): Promise<void> {
      if (!hasBegun || state !== 'open') return Promise.resolve()
      const discarded = Promise.withResolvers<void>()
      discarding = { maxBytes, complete: discarded.resolve }
      for (const chunk of chunks.splice(0)) drop(chunk)
      return discarded.promise
    },

    /** Marks the end of the data: `ended` by the client, or `broken` because the client is gone. */
    end(how: 'ended' | 'broken'): void {
      if (state === 'open') state = how
      discarding?.complete()
      wake()
    },

    /** Yields the data until the client ends it. Throws the signal's reason, and when the client is gone. */
    read,

    /** Whether the reader waits for the client. */
    isWaiting: () => isWaiting,
  }
}
