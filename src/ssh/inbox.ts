// Each chunk costs some hundred bytes more than it has, so small ones that wait are put together.
const smallBytes = 1024
const blockBytes = 16 * 1024

/**
 * What a client sends on a channel, to be taken in pieces by one reader. `onTaken` is called with the
 * bytes that were taken: only so many may the client send again.
 */
export function createInbox(onTaken: (bytes: number) => void) {
  const chunks: Buffer[] = []
  let block = { bytes: Buffer.alloc(0), used: 0, last: Buffer.alloc(0) }
  let state: 'open' | 'ended' | 'broken' = 'open'
  let isWaiting = false
  let wake = () => {}

  async function* read(signal: AbortSignal): AsyncGenerator<Buffer, void, undefined> {
    const stop = () => wake()
    signal.addEventListener('abort', stop)
    try {
      for (;;) {
        signal.throwIfAborted()
        const chunk = chunks.shift()
        if (chunk) {
          onTaken(chunk.length)
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

  function keep(chunk: Buffer): void {
    const last = chunks.at(-1)
    if (!last || chunk.length >= smallBytes) {
      chunks.push(chunk)
      return
    }
    if (chunk.length > block.bytes.length - block.used) {
      block = { bytes: Buffer.allocUnsafeSlow(blockBytes), used: 0, last: Buffer.alloc(0) }
    }
    const isContinued = last === block.last
    const start = isContinued ? block.used - last.length : block.used
    chunk.copy(block.bytes, block.used)
    block.used += chunk.length
    block.last = block.bytes.subarray(start, block.used)
    if (isContinued) chunks.pop()
    chunks.push(block.last)
  }

  return {
    push(chunk: Buffer): void {
      keep(chunk)
      wake()
    },

    /** Nothing more comes: as the client said, or because it is gone. */
    end(how: 'ended' | 'broken'): void {
      if (state === 'open') state = how
      wake()
    },

    /** All that comes, until the client ends it. Throws a signal's reason, or when the client is gone. */
    read,

    /** Whether the reader waits for the client. */
    isWaiting: () => isWaiting,
  }
}
