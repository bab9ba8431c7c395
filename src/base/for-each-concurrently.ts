/** Processes items with limited concurrency. After a failure it starts no more, waits for those running, and throws. */
export async function forEachConcurrently<T>(
  maxConcurrency: number,
  items: Iterable<T>,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const iterator = items[Symbol.iterator]()
  let failed = false
  const workers = Array.from({ length: maxConcurrency }, async () => {
    for (let next = iterator.next(); !failed && !next.done; next = iterator.next()) {
      try {
        await work(next.value)
      } catch (error) {
        failed = true
        throw error
      }
    }
  })
  const results = await Promise.allSettled(workers)
  for (const result of results) if (result.status === 'rejected') throw result.reason
}

/** Does works at the same time. When one fails, the others are aborted, and have ended before its error is thrown. */
export async function allOrNone<T extends unknown[] | []>(
  works: { [Index in keyof T]: (signal: AbortSignal) => Promise<T[Index]> },
  outer?: AbortSignal,
): Promise<T> {
  const failure = new AbortController()
  const signal = outer ? AbortSignal.any([outer, failure.signal]) : failure.signal
  const running = works.map((work) =>
    work(signal).catch((error) => {
      failure.abort(error)
      throw error
    }),
  )
  await Promise.allSettled(running)
  failure.signal.throwIfAborted()
  // One result for each work, in their order.
  return (await Promise.all(running)) as T
}
