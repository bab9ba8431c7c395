import { watchDrain } from '#base/chunks.ts'
import { Problem } from '#base/problem.ts'
import { watchStall } from '#base/timeouts.ts'
import type { StreamExchange } from '#http/route.ts'
import type { LfsObjects } from '#repositories/lfs-objects.ts'

type LfsObject = Parameters<LfsObjects['open']>[0]

/** Receives an object as the body of a request; returns the bytes that were declared, or else read. */
export async function receiveLfsObject(
  lfsObjects: Pick<LfsObjects, 'add'>,
  object: LfsObject,
  { request, signal }: Pick<StreamExchange, 'request' | 'signal'>,
): Promise<number> {
  const readBefore = request.socket.bytesRead
  const { 'content-length': length, 'content-encoding': encoding = 'identity' } = request.headers
  if (encoding !== 'identity')
    throw new Problem('unsupported_media_type', 'Send the object without a Content-Encoding.')
  const declaredBytes = length === undefined ? undefined : Number(length)
  await lfsObjects.add(object, { body: { declaredBytes, open: () => request }, signal })
  return declaredBytes ?? request.socket.bytesRead - readBefore
}

const bufferBytes = 256 * 1024

type Sending = Pick<StreamExchange, 'request' | 'response' | 'signal'> & { stallMs: number }

/** Sends an object, or a range of it: RFC 9110, section 14. */
export async function sendLfsObject(
  lfsObjects: Pick<LfsObjects, 'open'>,
  object: LfsObject,
  { request, response, signal, stallMs }: Sending,
): Promise<void> {
  await using file = await lfsObjects.open(object)
  const { size } = file
  const entityTag = `"${object.oid}"`
  const { range: wanted, 'if-range': condition = entityTag } = request.headers
  const range = condition === entityTag ? toRange(wanted, size) : undefined
  if (range === 'unsatisfiable') {
    response.writeHead(416, { 'content-range': `bytes */${size}`, 'content-length': 0 }).end()
    return
  }
  const { start, bytes } = range ?? { start: 0, bytes: size }
  using stall = watchStall(stallMs, () => response.writableNeedDrain, signal)
  using draining = watchDrain(response, stall.signal)
  const begin = () =>
    response.writeHead(range ? 206 : 200, {
      'content-type': 'application/octet-stream',
      'content-length': bytes,
      'accept-ranges': 'bytes',
      etag: entityTag,
      ...(range && { 'content-range': `bytes ${start}-${start + bytes - 1}/${size}` }),
    })
  // With a new buffer for each chunk, the collection of garbage takes longer than reading and sending.
  const buffer = Buffer.allocUnsafeSlow(Math.min(bufferBytes, bytes))
  for await (const chunk of file.read({ start, bytes, buffer }, stall.signal)) {
    // Only now, so that a file that cannot be read becomes a Problem.
    if (!response.headersSent) begin()
    // All chunks but the last are larger than what a response buffers, so they are sent before the buffer is used again.
    if (!response.write(chunk)) await draining.wait()
    stall.signal.throwIfAborted()
    stall.progress()
  }
  if (!response.headersSent) begin()
  response.end()
}

/** The first and only range of a `Range` header; undefined for one that is absent or is to be ignored. */
function toRange(
  header: string | undefined,
  size: number,
): { start: number; bytes: number } | 'unsatisfiable' | undefined {
  const [, first, last] = /^bytes=(\d{1,15})?-(\d{1,15})?$/.exec(header ?? '') ?? []
  if (first === undefined && last === undefined) return undefined
  if (first !== undefined && last !== undefined && Number(last) < Number(first)) return undefined
  const start = first === undefined ? Math.max(0, size - Number(last)) : Number(first)
  const end = first === undefined || last === undefined ? size : Math.min(size, Number(last) + 1)
  return start < end ? { start, bytes: end - start } : 'unsatisfiable'
}
