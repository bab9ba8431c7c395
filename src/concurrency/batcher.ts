import { setImmediate, setTimeout as sleep } from 'node:timers/promises'

type Waiting<T, R> = { item: T; resolve: (result: R) => void; reject: (error: unknown) => void }

/**
 * Does together what is asked for at about the same time: while one batch is worked on, the next one collects. Of a batch
 * that fails each item is tried alone, so that what is wrong with one does not become the fault of all. `work` gives
 * a result for each item, in their order. The first item after a while is worked on at once; while there are more and
 * more, a batch begins so many milliseconds after the one before at the earliest.
 */
export function createBatcher<T, R>(
  { most, apartMs }: { most: number; apartMs: number },
  work: (items: T[]) => Promise<R[]>,
): (item: T) => Promise<R> {
  let waiting: Waiting<T, R>[] = []
  let isWorking = false
  let begunAt = 0

  async function workOn(): Promise<void> {
    // Whatever else this turn of the event loop asks for comes along.
    await setImmediate()
    while (waiting.length > 0) {
      const tooSoonMs = begunAt + apartMs - performance.now()
      if (tooSoonMs > 0 && waiting.length < most) await sleep(tooSoonMs)
      begunAt = performance.now()
      const batch = waiting.slice(0, most)
      waiting = waiting.slice(most)
      await settle(batch).catch(async (error) => {
        if (batch.length === 1) return batch[0]?.reject(error)
        for (const one of batch) await settle([one]).catch(one.reject)
      })
    }
    isWorking = false
  }

  async function settle(batch: Waiting<T, R>[]): Promise<void> {
    const results = await work(batch.map(({ item }) => item))
    // There is one for each.
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
