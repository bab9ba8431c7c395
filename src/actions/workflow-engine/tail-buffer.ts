/** A ring buffer of the last `maxBytes` written to it. */
export function createTailBuffer(maxBytes: number) {
  let ring: Buffer | undefined
  let written = 0

  return {
    write(bytes: Buffer): void {
      ring ??= Buffer.alloc(maxBytes)
      const last = bytes.subarray(Math.max(0, bytes.length - maxBytes))
      written += bytes.length - last.length
      const at = written % maxBytes
      const copied = last.copy(ring, at)
      last.copy(ring, 0, copied)
      written += last.length
    },
    /** The total number of bytes written. */
    writtenBytes: () => written,
    read(): Buffer {
      if (!ring) return Buffer.alloc(0)
      if (written <= maxBytes) return ring.subarray(0, written)
      const at = written % maxBytes
      return Buffer.concat([ring.subarray(at), ring.subarray(0, at)])
    },
  }
}
