import type { Readable, Writable } from 'node:stream'

/**
 * The pieces of a stream as they come. Throws a signal's reason as soon as it is aborted, and leaves the
 * stream open then, without listeners, so that what still comes can be read and dropped.
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

/** Waits, as often as it is asked to, until a stream takes more, or never will, or a signal is aborted. */
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

/** Has the next of several events waited for, none of which is a failure. Listens once: packs come in many pieces. */
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
