import { createHash } from 'node:crypto'

/** The size of the header of a pack, and of the SHA-1 at its end: gitformat-pack(5). */
export const packHeaderBytes = 12
export const packChecksumBytes = 20

/** Whether a whole pack has no objects, and the right checksum. */
export function isEmptyPack(pack: Buffer): boolean {
  const header = pack.subarray(0, packHeaderBytes)
  const checksum = createHash('sha1').update(header).digest()
  return header.equals(packHeader(0)) && pack.subarray(packHeaderBytes).equals(checksum)
}

/** The header of a pack, with its number of objects. */
export function packHeader(objects: number): Buffer {
  const header = Buffer.alloc(packHeaderBytes)
  header.write('PACK', 'latin1')
  header.writeUInt32BE(2, 4)
  header.writeUInt32BE(objects, 8)
  return header
}
