/** An entry of a tar archive, as hostile as its fields. */
export type TarEntry = {
  name: string
  /** As in the header: `0` a file, `1` a hard link, `2` a symbolic link, `3` a device, `5` a folder, `6` a pipe. */
  type?: '0' | '1' | '2' | '3' | '5' | '6'
  mode?: number
  link?: string
  content?: string
  /** The size in the header, without content. */
  size?: number
}

const blockBytes = 512

/** Writes a tar archive (POSIX ustar) from entries, without checking them. */
export function* tarOf(entries: Iterable<TarEntry>): Generator<Buffer> {
  for (const entry of entries) {
    const content = Buffer.from(entry.content ?? '')
    yield header(entry, entry.size ?? content.length)
    if (content.length === 0) continue
    yield Buffer.concat([content, Buffer.alloc(-content.length & (blockBytes - 1))])
  }
  yield Buffer.alloc(2 * blockBytes)
}

function header({ name, type = '0', mode = 0o644, link = '' }: TarEntry, size: number): Buffer {
  const block = Buffer.alloc(blockBytes)
  block.write(name, 0, 100)
  block.write(`${mode.toString(8).padStart(7, '0')}\0`, 100)
  block.write('0000000\0', 108)
  block.write('0000000\0', 116)
  block.write(`${size.toString(8).padStart(11, '0')}\0`, 124)
  block.write('00000000000\0', 136)
  block.write('        ', 148)
  block.write(type, 156)
  block.write(link, 157, 100)
  block.write('ustar\x0000', 257)
  block.write('0000001\0', 329)
  block.write('0000003\0', 337)
  let sum = 0
  for (const byte of block) sum += byte
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return block
}
