import { createSemaphore } from '#base/concurrency/semaphore.ts'
import { openRangeConnection, type RangeConnection, type RangeRequest } from './range-connection.ts'

/** Connections for ranges, of a limited number for all downloads. Each is used again, or closes when it is not. */
export type RangeConnections = Disposable & Pick<RangeConnection, 'get'>

type Options = Parameters<typeof openRangeConnection>[0] & { maxConnections: number }

export function createRangeConnections({ maxConnections, ...options }: Options): RangeConnections {
  const semaphore = createSemaphore(maxConnections)
  const connections = new Set<RangeConnection>()
  const idle: RangeConnection[] = []

  function open(): RangeConnection {
    for (const connection of connections) if (connection.isClosed()) connections.delete(connection)
    const connection = openRangeConnection(options)
    connections.add(connection)
    return connection
  }

  function takeIdle(): RangeConnection | undefined {
    for (let found = idle.pop(); found; found = idle.pop()) if (!found.isClosed()) return found
    return undefined
  }

  return {
    async get(request: RangeRequest) {
      using _permit = await semaphore.acquire(request.signal)
      const connection = takeIdle() ?? open()
      const isReceived = await connection.get(request)
      idle.push(connection)
      return isReceived
    },

    [Symbol.dispose]() {
      for (const connection of connections) connection[Symbol.dispose]()
    },
  }
}
