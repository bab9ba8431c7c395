import {
  type BodyConnection,
  type BodyRequest,
  openBodyConnection,
  type ResponseHead,
} from '#base/body-connection.ts'
import { createSemaphore } from '#base/concurrency/semaphore.ts'
import { S3Error } from './s3-error.ts'

export type ObjectRange = { start: number; bytes: number }

/** A range of an object, and where it goes. */
export type RangeTransfer = {
  range: ObjectRange
  /** The size that the whole object must have. */
  total: number
  /** Writes bytes at a position of the object; they are valid until it resolves. */
  write: (bytes: Buffer, position: number) => Promise<unknown>
}

type RangeRequest = RangeTransfer & Pick<BodyRequest, 'path' | 'headers' | 'signal'>

/** A connection for ranges of objects. */
type RangeConnection = Omit<BodyConnection, 'get'> & {
  /**
   * Gets a range; one at a time. False when the response is anything else than this range with its length: then nothing
   * was written, the connection is closed, and a complete HTTP client should repeat the request.
   */
  get: (request: RangeRequest) => Promise<boolean>
}

type Options = Omit<Parameters<typeof openBodyConnection>[0], 'toError'>

export function openRangeConnection(options: Options): RangeConnection {
  const toError = (reason: string) =>
    new S3Error('unavailable', `A connection to the object store ${reason}.`)
  const connection = openBodyConnection({ ...options, toError })
  return {
    ...connection,

    get(request) {
      const { path, headers, range, write, signal } = request
      const { start, bytes } = range
      return connection.get({
        path,
        headers: { ...headers, range: `bytes=${start}-${start + bytes - 1}` },
        accept: (response) => (isWanted(response, request) ? bytes : undefined),
        write: (chunk, offset) => write(chunk, start + offset),
        signal,
      })
    },
  }
}

/** Whether a response has the range with its length: RFC 9110, sections 14.4 and 15.3.7. */
function isWanted(
  { status, headers }: ResponseHead,
  { range: { start, bytes }, total }: RangeTransfer,
): boolean {
  return (
    /^HTTP\/1\.1 206(?: |$)/.test(status) &&
    headers.get('content-length') === String(bytes) &&
    headers.get('content-range') === `bytes ${start}-${start + bytes - 1}/${total}`
  )
}

/** Connections for ranges, of a limited number for all downloads. Each is used again, or closes when it is not. */
export type RangeConnections = Disposable & Pick<RangeConnection, 'get'>

export function createRangeConnections({
  maxConnections,
  ...options
}: Options & { maxConnections: number }): RangeConnections {
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
