const headerBytes = 12

/** The header of a pack: gitformat-pack(5). */
export function packHeader(objects: number): Buffer {
  const header = Buffer.alloc(headerBytes)
  header.write('PACK', 'latin1')
  header.writeUInt32BE(2, 4)
  header.writeUInt32BE(objects, 8)
  return header
}
