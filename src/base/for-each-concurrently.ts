/** Works on items, some at a time; the first failure ends it once what is under way has ended. */
export async function forEachConcurrently<T>(
  most: number,
  items: Iterable<T>,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const iterator = items[Symbol.iterator]()
  let failed = false
  const workers = Array.from({ length: most }, async () => {
    for (let next = iterator.next(); !failed && !next.done; next = iterator.next()) {
      try {
        await work(next.value)
      } catch (error) {
        failed = true
        throw error
      }
    }
  })
  const ends = await Promise.allSettled(workers)
  for (const end of ends) if (end.status === 'rejected') throw end.reason
}
