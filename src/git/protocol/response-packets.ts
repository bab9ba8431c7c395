import { packet } from './pkt-line.ts'

const lengthDigits = 4
// Enough of a packet for the lines after which side bands begin, and for an error message.
const startMaxBytes = 1024
const none = Buffer.alloc(0)

/**
 * Follows the pkt-lines of a response, so that an error can be reported when git ends in the middle of it: as an `ERR`
 * packet (pack-protocol, "pkt-line Format"), or in the error band once side bands have begun. Git's own packets of that
 * band are held back until it ends, since some give a wrong reason, such as a corrupt repository.
 */
export function createResponsePackets() {
  // Bytes of the current packet still to come.
  let left = 0
  let isRaw = false
  let hasSideBands = false
  let hasSections = false
  let partial: Buffer = none
  // The start of the current packet's payload.
  let start: Buffer = none
  let held: Buffer[] = []
  let progress: Buffer = none

  // Git may write the length and band of a packet separately from the rest.
  function takePayload(piece: Buffer, isComplete: boolean): void {
    if (start.length === 0) start = piece.subarray(0, startMaxBytes)
    else if (start.length < startMaxBytes)
      start = Buffer.concat([start, piece]).subarray(0, startMaxBytes)
    if (!isComplete) return
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
      // Before version 2, a pack or an archive in side bands follows these.
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

    /** Returns the bytes held back. */
    rest: () => Buffer.concat([partial, ...held]),

    /** Returns an error packet to replace the bytes held back; undefined in the middle of a packet or a raw pack. */
    explain(reason: string): Buffer | undefined {
      if (isRaw || left > 0 || partial.length > 0) return undefined
      return packet(hasSideBands ? `\x03${reason}\n` : `ERR ${reason}\n`)
    },

    /** Whether the response has ended within a packet. */
    isIncomplete: () => !isRaw && (left > 0 || partial.length > 0),

    /** Returns the last progress message: child processes of git write their errors there. */
    lastProgress: () => progress.toString('utf8'),
  }
}
