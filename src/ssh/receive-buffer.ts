// Small buffers cost many times their length, so waiting ones are copied into blocks.
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

  return {
    push(chunk: Buffer): void {
      add(chunk)
      wake()
    },

    /** Marks the end of the data: sent by the client, or because it is gone. */
    end(how: 'ended' | 'broken'): void {
      if (state === 'open') state = how
      wake()
    },

    /** Yields the data until the client ends it. Throws the signal's reason, and when the client is gone. */
    read,

    /** Whether the reader waits for the client. */
    isWaiting: () => isWaiting,
  }
}
