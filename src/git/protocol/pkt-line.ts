/**
 * Git's pkt-lines: four hex digits of the total length, then the payload.
 * https://git-scm.com/docs/protocol-common
 */

export const flushPacket = Buffer.from('0000')
export const delimiterPacket = Buffer.from('0001')

const lengthDigits = 4
// LARGE_PACKET_MAX in Git's pkt-line.h.
export const packetMaxBytes = 65_520
const payloadMaxBytes = packetMaxBytes - lengthDigits

/** The side band of a pack, and how many bytes of it one packet has: gitprotocol-pack, "side-band-64k". */
export const packBand = 1
export const bandMaxBytes = payloadMaxBytes - 1

/** Encodes a payload as a pkt-line. Throws a RangeError when it is too long. */
export function packet(payload: string | Buffer): Buffer {
  const content = Buffer.from(payload)
  if (content.length > payloadMaxBytes)
    throw new RangeError('A pkt-line has at most 65,516 bytes of payload.')
  const length = (content.length + lengthDigits).toString(16).padStart(lengthDigits, '0')
  return Buffer.concat([Buffer.from(length), content])
}

export type Packet =
  | { kind: 'data'; payload: Buffer }
  | { kind: 'flush' | 'delimiter' | 'response-end' }

const special = ['flush', 'delimiter', 'response-end'] as const

/**
 * Parses the first packet, and returns it with its total length; `incomplete` when more bytes are needed, `malformed`
 * when the bytes are not a packet.
 */
export function firstPacket(
  bytes: Buffer,
): { packet: Packet; length: number } | 'incomplete' | 'malformed' {
  const digits = bytes.toString('latin1', 0, lengthDigits)
  if (!/^[0-9a-fA-F]*$/.test(digits)) return 'malformed'
  if (digits.length < lengthDigits) return 'incomplete'
  const length = Number.parseInt(digits, 16)
  const kind = special[length]
  if (kind) return { packet: { kind }, length: lengthDigits }
  if (length < lengthDigits || length > packetMaxBytes) return 'malformed'
  if (bytes.length < length) return 'incomplete'
  return { packet: { kind: 'data', payload: bytes.subarray(lengthDigits, length) }, length }
}
