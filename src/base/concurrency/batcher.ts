import { setImmediate, setTimeout as sleep } from 'node:timers/promises'

type Waiting<T, R> = { item: T; resolve: (result: R) => void; reject: (error: unknown) => void }

/**
 * Processes items in batches: while one batch runs, the next one collects. When a batch fails, its items are retried one
 * by one, so that a bad item does not fail the others. `work` returns a result for each item, in order. After a pause the
 * first item is processed at once; under load, batches start at least `minIntervalMs` apart unless they are full.
 */
export function createBatcher<T, R>(
  { maxItems, minIntervalMs }: { maxItems: number; minIntervalMs: number },
  work: (items: T[]) => Promise<R[]>,
): (item: T) => Promise<R> {
  let waiting: Waiting<T, R>[] = []
  let isWorking = false
  let startedAt = 0

  async function workOn(): Promise<void> {
    // Includes all items of this turn of the event loop.
    await setImmediate()
    while (waiting.length > 0) {
      const tooSoonMs = startedAt + minIntervalMs - performance.now()
      if (tooSoonMs > 0 && waiting.length < maxItems) await sleep(tooSoonMs)
      startedAt = performance.now()
      const batch = waiting.slice(0, maxItems)
      waiting = waiting.slice(maxItems)
      await settle(batch).catch(async (error) => {
        if (batch.length === 1) return batch[0]?.reject(error)
        for (const one of batch) await settle([one]).catch(one.reject)
      })
    }
    isWorking = false
  }

  async function settle(batch: Waiting<T, R>[]): Promise<void> {
    const results = await work(batch.map(({ item }) => item))
    // `work` returns as many results as it has items.
    for (const [index, { resolve }] of batch.entries()) resolve(results[index] as R)
  }

  return (item) =>
    new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject })
      if (isWorking) return
      isWorking = true
      void workOn()
    })
}
