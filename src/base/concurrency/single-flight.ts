/** Shares the work of concurrent calls with the same key. */
export function createSingleFlight<T>() {
  const inFlight = new Map<string, Promise<T>>()

  function start(key: string, work: () => Promise<T>): Promise<T> {
    const result = work().finally(() => inFlight.delete(key))
    inFlight.set(key, result)
    return result
  }

  return (key: string, work: () => Promise<T>): Promise<T> => inFlight.get(key) ?? start(key, work)
}
