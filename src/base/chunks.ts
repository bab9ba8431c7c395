import type { Readable, Writable } from 'node:stream'

/**
 * Yields the chunks of a stream. Throws the signal's reason as soon as it is aborted, and then leaves the stream open,
 * without listeners, so that the caller can drain it.
 */
export async function* chunksOf(
  source: Readable,
  signal: AbortSignal,
): AsyncGenerator<Buffer, void, undefined> {
  using changes = watchChanges(source, ['readable', 'end', 'error', 'close'], signal)
  for (;;) {
    signal.throwIfAborted()
    const chunk: Buffer | null = source.read()
    if (chunk !== null) yield chunk
    else if (source.errored) throw source.errored
    else if (source.readableEnded) return
    else if (source.destroyed) throw new Error('The stream was closed before its end.')
    else await changes.next()
  }
}

/** Chunks in batches of at least a size but for the last one. */
export async function* inBatches(
  chunks: AsyncIterable<Buffer>,
  minBytes: number,
): AsyncGenerator<Buffer[], void, undefined> {
  let batch: Buffer[] = []
  let bytes = 0
  for await (const chunk of chunks) {
    batch.push(chunk)
    bytes += chunk.length
    if (bytes < minBytes) continue
    yield batch
    batch = []
    bytes = 0
  }
  if (batch.length > 0) yield batch
}

/** Waits, repeatedly, until a stream drains, fails or closes, or the signal is aborted. */
export function watchDrain(
  stream: Writable,
  signal: AbortSignal,
): Disposable & { wait: () => Promise<void> } {
  const changes = watchChanges(stream, ['drain', 'error', 'close'], signal)
  return {
    async wait() {
      if (!stream.destroyed && !signal.aborted) await changes.next()
    },
    [Symbol.dispose]: () => changes[Symbol.dispose](),
  }
}

/** Waits for the next of several events, never rejecting. Listeners are added once: packs come in many chunks. */
function watchChanges(
  stream: Readable | Writable,
  events: readonly string[],
  signal: AbortSignal,
): Disposable & { next: () => Promise<void> } {
  let wake = () => {}
  const change = () => wake()
  for (const event of events) stream.on(event, change)
  signal.addEventListener('abort', change)
  return {
    next: () =>
      new Promise((resolve) => {
        wake = resolve
      }),
    [Symbol.dispose]() {
      for (const event of events) stream.off(event, change)
      signal.removeEventListener('abort', change)
    },
  }
}
