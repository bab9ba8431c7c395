import { packet } from './pkt-line.ts'

const lengthDigits = 4
// Enough of a packet for the lines after which side bands begin, and for a complaint.
const startMaxBytes = 1024
const none = Buffer.alloc(0)

/**
 * Follows the pkt-lines of a response, so that its reason can still be given when git ends in the middle of it: by an
 * `ERR` packet (pack-protocol, "pkt-line Format"), or in the error band once the side bands have begun. Git's own
 * packets of that band are held back until its end: some give a wrong reason, such as a corrupt repository.
 */
export function createResponsePackets() {
  // Bytes of the current packet that have not come yet.
  let left = 0
  let isRaw = false
  let hasSideBands = false
  let hasSections = false
  let partial: Buffer = none
  // How the payload of the current packet begins.
  let start: Buffer = none
  let held: Buffer[] = []
  let progress: Buffer = none

  // Git may write the length and band of a packet before the rest of it.
  function takePayload(piece: Buffer, isWhole: boolean): void {
    if (start.length === 0) start = piece.subarray(0, startMaxBytes)
    else if (start.length < startMaxBytes)
      start = Buffer.concat([start, piece]).subarray(0, startMaxBytes)
    if (!isWhole) return
    note(start)
    start = none
  }

  function note(payload: Buffer): void {
    const [first] = payload
    if (first === 2) progress = payload.subarray(1)
    if (first === 1 || first === 2) hasSideBands = true
    else if (payload.length < startMaxBytes) {
      const line = payload.toString('latin1').trimEnd()
      if (line === 'acknowledgments') hasSections = true
      else if (line === 'packfile') hasSideBands = true
      // Before version 2 a pack or an archive follows these, in side bands.
      else if (!hasSections && /^(NAK|ACK( [0-9a-f]+)?)$/.test(line)) hasSideBands = true
    }
  }

  return {
    /** Takes the next bytes; returns those that may be sent at once. */
    pass(chunk: Buffer): Buffer {
      if (isRaw) return chunk
      if (held.length > 0) {
        held.push(chunk)
        return none
      }
      const bytes = partial.length === 0 ? chunk : Buffer.concat([partial, chunk])
      partial = none
      let at = left
      if (left > 0) takePayload(bytes.subarray(0, left), left <= bytes.length)
      while (at < bytes.length) {
        const digits = bytes.toString('latin1', at, at + lengthDigits)
        const length = /^[0-9a-fA-F]+$/.test(digits) ? Number.parseInt(digits, 16) : Number.NaN
        // A pack without side bands.
        if (Number.isNaN(length) || (digits.length === lengthDigits && length === 3)) {
          isRaw = true
          return bytes
        }
        const isSpecial = digits.length === lengthDigits && length <= lengthDigits
        // The first byte of a payload is its band.
        if (!isSpecial && bytes.length - at <= lengthDigits) {
          partial = bytes.subarray(at)
          left = 0
          return bytes.subarray(0, at)
        }
        if (!isSpecial && bytes[at + lengthDigits] === 3) {
          held = [bytes.subarray(at)]
          left = 0
          return bytes.subarray(0, at)
        }
        const end = at + Math.max(length, lengthDigits)
        if (!isSpecial) takePayload(bytes.subarray(at + lengthDigits, end), end <= bytes.length)
        at = end
      }
      left = at - bytes.length
      return bytes
    },

    /** What was held back. */
    rest: () => Buffer.concat([partial, ...held]),

    /** A packet with a reason, in place of what was held back; undefined where the response has no place for it. */
    explain(reason: string): Buffer | undefined {
      if (isRaw || left > 0 || partial.length > 0) return undefined
      return packet(hasSideBands ? `\x03${reason}\n` : `ERR ${reason}\n`)
    },

    /** The last progress message: where a process that git has started writes its complaint. */
    lastProgress: () => progress.toString('utf8'),
  }
}
