import {
  type BodyConnection,
  type BodyRequest,
  openBodyConnection,
  type ResponseHead,
} from '#base/body-connection.ts'
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

export type RangeRequest = RangeTransfer & Pick<BodyRequest, 'path' | 'headers' | 'signal'>

/** A connection for ranges of objects. */
export type RangeConnection = Omit<BodyConnection, 'get'> & {
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
