import { createHash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { promisify } from 'node:util'
import { deflate, deflateSync } from 'node:zlib'
import type { NewObject } from './new-objects.ts'
import { blobType, commitType, treeType } from './pack-entries.ts'

type PackInput = Pick<NewObject, 'type' | 'content'>

const types = { commit: commitType, tree: treeType, blob: blobType }
const deflateLater = promisify(deflate)
// Larger ones are deflated by another thread.
const syncMaxBytes = 32 * 1024
const chunkBytes = 64 * 1024

/** Writes a pack of whole objects: https://git-scm.com/docs/pack-format. Other work goes on between its chunks. */
export async function* writePack(
  count: number,
  objects: Iterable<PackInput> | AsyncIterable<PackInput>,
): AsyncGenerator<Buffer, void, undefined> {
  const hash = createHash('sha1')
  let pieces: Buffer[] = []
  let bytes = 0
  const add = (piece: Buffer) => {
    hash.update(piece)
    pieces.push(piece)
    bytes += piece.length
  }
  const header = Buffer.from('PACK\0\0\0\x02\0\0\0\0', 'latin1')
  header.writeUInt32BE(count, 8)
  add(header)
  for await (const { type, content } of objects) {
    add(entryHeader(types[type], content.length))
    add(content.length > syncMaxBytes ? await deflateLater(content) : deflateSync(content))
    if (bytes < chunkBytes) continue
    yield Buffer.concat(pieces)
    pieces = []
    bytes = 0
    await setImmediate()
  }
  pieces.push(hash.digest())
  yield Buffer.concat(pieces)
}

/** Type and size of an entry: four bits of the size beside the type, then seven a byte, the lowest first. */
function entryHeader(type: number, size: number): Buffer {
  const bytes = [(type << 4) | (size & 15)]
  for (let rest = Math.floor(size / 16); rest > 0; rest = Math.floor(rest / 128)) {
    const last = bytes.length - 1
    bytes[last] = (bytes[last] ?? 0) | 128
    bytes.push(rest & 127)
  }
  return Buffer.from(bytes)
}
