import type { Readable, Writable } from 'node:stream'

/**
 * The pieces of a stream as they come. Throws a signal's reason as soon as it is aborted, and leaves the
 * stream open then, without listeners, so that what still comes can be read and dropped.
 */
export async function* chunksOf(
  source: Readable,
  signal: AbortSignal,
): AsyncGenerator<Buffer, void, undefined> {
  for (;;) {
    signal.throwIfAborted()
    const chunk: Buffer | null = source.read()
    if (chunk !== null) yield chunk
    else if (source.errored) throw source.errored
    else if (source.readableEnded) return
    else if (source.destroyed) throw new Error('The stream was closed before its end.')
    else await oneOf(source, ['readable', 'end', 'error', 'close'], signal)
  }
}

/** Waits until a stream takes more, or never will, or a signal is aborted. */
export async function drained(stream: Writable, signal: AbortSignal): Promise<void> {
  if (stream.destroyed || signal.aborted) return
  await oneOf(stream, ['drain', 'error', 'close'], signal)
}

/** Waits for one of several events; none of them is a failure. */
function oneOf(
  stream: Readable | Writable,
  events: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  return new Promise((resolve) => {
    function end() {
      for (const event of events) stream.off(event, end)
      signal.removeEventListener('abort', end)
      resolve()
    }
    for (const event of events) stream.on(event, end)
    signal.addEventListener('abort', end)
  })
}
