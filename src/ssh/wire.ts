/** Reads the data types of the SSH protocol in sequence. */
export type WireReader = ReturnType<typeof createReader>

/**
 * Creates a reader of the data types of RFC 4251, section 5. Results share the buffer's memory.
 * Methods throw a RangeError when the bytes end too early or are not of the type.
 */
export function createReader(buffer: Buffer, start = 0) {
  let offset = start

  function take(length: number): Buffer {
    if (length > buffer.length - offset) throw new RangeError('The bytes end too early.')
    offset += length
    return buffer.subarray(offset - length, offset)
  }

  const byte = () => take(1).readUInt8()
  const uint32 = () => take(4).readUInt32BE()
  const string = () => take(uint32())

  return {
    byte,
    uint32,
    string,
    boolean: () => byte() !== 0,
    /** A string in UTF-8. */
    text: () => string().toString('utf8'),
    /** A positive number in its shortest form, as big-endian bytes without a leading zero. */
    positiveMpint(): Buffer {
      const bytes = string()
      const [first = 0, second = 0] = bytes
      if (first > 0 && first < 0x80) return bytes
      if (first === 0 && second >= 0x80) return bytes.subarray(1)
      throw new RangeError('This is not a positive number in its shortest form.')
    },
    /** The names of a name-list. */
    names: () => string().toString('latin1').split(','),
    /** The offset of the next value. */
    position: () => offset,
    /** Throws when bytes remain. */
    assertEnd(): void {
      if (offset !== buffer.length) throw new RangeError('There is data after the last field.')
    },
  }
}

export function writeUint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

export function writeString(value: string | Uint8Array): Buffer {
  const bytes = typeof value === 'string' ? Buffer.from(value, 'utf8') : value
  return Buffer.concat([writeUint32(bytes.length), bytes])
}

/** A message: its number, then its values. A number stands for a uint32. */
export function message(type: number, ...values: (number | boolean | string | Buffer)[]): Buffer {
  return Buffer.concat([Buffer.of(type), ...values.map(toBytes)])
}

function toBytes(value: number | boolean | string | Buffer): Buffer {
  if (typeof value === 'number') return writeUint32(value)
  return typeof value === 'boolean' ? Buffer.of(value ? 1 : 0) : writeString(value)
}
