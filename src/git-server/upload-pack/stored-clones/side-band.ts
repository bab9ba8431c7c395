import { watchDrain } from '#base/chunks.ts'
import { writeBudget } from '#base/write-budget.ts'
import type { ResponseSink } from '#git/protocol/pipe-process.ts'
import {
  bandMaxBytes,
  flushPacket,
  packBand,
  packet,
  packetMaxBytes,
} from '#git/protocol/pkt-line.ts'
import { type Part, readParts, sizeOf } from './pack-stream.ts'

type Packets = { bytes: Buffer; bodyBytes: number; done: () => void }

// The length of a packet and its band precede the bytes of the pack.
const headBytes = packetMaxBytes - bandMaxBytes
// Slow readers keep their buffers: a megabyte each. Beyond this number of responses at a time, each has little.
const maxFastResponses = 32
const packetsAtOnce = { few: 1, many: 8 }
const maxSpareBuffers = 8
const spareBuffers: Buffer[] = []
let responses = 0
const packfile = packet('packfile\n')

/**
 * Sends a pack as the response to a `fetch` command: https://git-scm.com/docs/protocol-v2. While some bytes are sent, the
 * next ones are read. The checksum, which ends the pack, is awaited last.
 */
export async function sendPack(
  parts: readonly Part[],
  checksum: { bytes: number; made: Promise<Buffer> },
  { output, signal, onBegin, onProgress }: ResponseSink,
): Promise<void> {
  const size = sizeOf(parts)
  using _counted = countResponse()
  using draining = watchDrain(output, signal)
  onBegin(responseBytes(size, checksum.bytes))
  output.write(packfile)
  let next = readPackets(parts, 0, size)
  for (let at = 0; at < size; ) {
    const { bytes, bodyBytes, done } = await next
    at += bodyBytes
    next = readPackets(parts, at, size)
    // Awaited unless the client leaves.
    next.catch(() => {})
    onProgress()
    await writeBudget(bytes.length)
    const isWritable = output.write(bytes, (error) => error || done())
    if (!isWritable) await draining.wait()
    onProgress()
    signal.throwIfAborted()
  }
  output.write(Buffer.concat([headOf(checksum.bytes), await checksum.made, flushPacket]))
}

function countResponse(): Disposable {
  responses += 1
  return {
    [Symbol.dispose]() {
      responses -= 1
    },
  }
}

function responseBytes(packBytes: number, checksumBytes: number): number {
  const packets = Math.ceil(packBytes / bandMaxBytes)
  const end = headBytes + checksumBytes + flushPacket.length
  return packfile.length + packets * headBytes + packBytes + end
}

function headOf(bodyBytes: number): Buffer {
  const digits = (headBytes + bodyBytes).toString(16).padStart(headBytes - 1, '0')
  return Buffer.from(`${digits}${String.fromCharCode(packBand)}`, 'latin1')
}

/** Reads the next bytes of a pack as packets: straight to their places in a buffer. */
async function readPackets(parts: readonly Part[], from: number, size: number): Promise<Packets> {
  const isFast = responses <= maxFastResponses
  const packets = isFast ? packetsAtOnce.many : packetsAtOnce.few
  const spare = isFast ? spareBuffers.pop() : undefined
  const buffer = spare ?? Buffer.allocUnsafeSlow(packets * packetMaxBytes)
  const bodies: Buffer[] = []
  let at = from
  let end = 0
  for (; at < size && bodies.length < packets; ) {
    const length = Math.min(bandMaxBytes, size - at)
    const start = end + headOf(length).copy(buffer, end)
    end = start + length
    bodies.push(buffer.subarray(start, end))
    at += length
  }
  await readParts(parts, from, bodies)
  const isKept = () => isFast && spareBuffers.length < maxSpareBuffers
  const done = () => void (isKept() && spareBuffers.push(buffer))
  return { bytes: buffer.subarray(0, end), bodyBytes: at - from, done }
}
