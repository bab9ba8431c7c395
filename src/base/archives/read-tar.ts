import { ArchiveFormatError } from './archive-format-error.ts'
import { ByteReader } from './byte-reader.ts'
import { blockBytes, decodeName, readHeader, readTextField, type TarHeader } from './tar-header.ts'

/** A file or folder of an archive. */
export type ArchiveEntry = {
  kind: 'file' | 'folder'
  /** The parts of its path: at least one, and none of them empty, `.` or `..`. */
  path: string[]
  size: number
  isExecutable: boolean
  /** Seconds since the Unix epoch. */
  modifiedAt: number
  /** To be read before the next entry, or not at all. */
  content: AsyncIterable<Buffer>
}

// As long as paths that systems accept.
const nameMaxBytes = 4096
const extensionsMaxBytes = 64 * 1024

/**
 * Reads the entries of a tar archive while it arrives. Throws ArchiveFormatErrors: for one that is damaged, and for
 * links, devices, sparse files, and names that lead out of a folder.
 */
export async function* readTar(
  source: AsyncIterable<Buffer>,
): AsyncGenerator<ArchiveEntry, void, undefined> {
  const reader = new ByteReader(source)
  try {
    let extension: Extension = {}
    for (;;) {
      const header = await nextHeader(reader)
      if (!header) return
      if (isExtension(header)) {
        extension = { ...extension, ...(await readExtension(reader, header)) }
        continue
      }
      yield* readEntry(reader, { ...header, ...extension })
      extension = {}
    }
  } finally {
    await reader.close()
  }
}

async function nextHeader(reader: ByteReader): Promise<TarHeader | undefined> {
  const block = await reader.take(blockBytes)
  return block && readHeader(block)
}

async function* readEntry(reader: ByteReader, header: TarHeader): AsyncGenerator<ArchiveEntry> {
  const { name, type, mode, size, modifiedAt } = header
  if (type !== '0' && type !== '5')
    throw new ArchiveFormatError(`${name} is a link or another special file.`)
  const path = toPath(name)
  const isFile = type === '0'
  let isRead = false
  async function* read() {
    isRead = true
    yield* reader.pass(size)
  }
  if (path.length > 0)
    yield {
      kind: isFile ? 'file' : 'folder',
      path,
      size: isFile ? size : 0,
      isExecutable: (mode & 0o100) !== 0,
      modifiedAt,
      content: read(),
    }
  if (!isRead) await reader.skip(size)
  await reader.skip(paddingOf(size))
}

/** The parts of a relative path. Backslashes separate for those who unpack on Windows. */
function toPath(name: string): string[] {
  const parts = name.split('/').filter((part) => part !== '' && part !== '.')
  const isOutside = /^([/\\]|[a-z]:)/i.test(name) || name.split(/[/\\]/).includes('..')
  if (isOutside || name.includes('\0'))
    throw new ArchiveFormatError(`The name ${JSON.stringify(name)} leads out of its folder.`)
  return parts
}

/** Fields that override those of the next header. */
type Extension = Partial<Pick<TarHeader, 'name' | 'size'>>

/** GNU's long names and link targets, and the headers of pax, for one entry or for all. */
function isExtension({ type }: TarHeader): boolean {
  return 'LKxg'.includes(type)
}

async function readExtension(reader: ByteReader, header: TarHeader): Promise<Extension> {
  const { type, size } = header
  if (size > (type === 'L' ? nameMaxBytes : extensionsMaxBytes))
    throw new ArchiveFormatError('It has a name that is too long.')
  const bytes = (await reader.take(size)) ?? Buffer.alloc(0)
  if (bytes.length < size) throw new ArchiveFormatError('It ends before it is complete.')
  await reader.skip(paddingOf(size))
  if (type === 'L') return { name: readTextField(bytes, 0, bytes.length) }
  return type === 'x' ? readPax(bytes) : {}
}

/** Records such as `20 path=some/name\n`: pax(1), extended headers. */
function readPax(bytes: Buffer): Extension {
  const extension: Extension = {}
  for (let from = 0; from < bytes.length; ) {
    const [, length = ''] = /^(\d{1,6}) /.exec(bytes.toString('latin1', from, from + 7)) ?? []
    const end = from + Number(length)
    const equals = bytes.indexOf('=', from)
    const isRecord = end <= bytes.length && equals > from && equals < end && bytes[end - 1] === 0x0a
    if (!isRecord) throw new ArchiveFormatError('It is no tar archive, or is damaged.')
    const key = bytes.toString('latin1', from + length.length + 1, equals)
    const value = bytes.subarray(equals + 1, end - 1)
    if (key.startsWith('GNU.sparse.')) throw new ArchiveFormatError('It has a sparse file.')
    if (key === 'path') extension.name = toName(value)
    if (key === 'size') extension.size = toSize(value)
    from = end
  }
  return extension
}

function toName(value: Buffer): string {
  if (value.length > nameMaxBytes) throw new ArchiveFormatError('It has a name that is too long.')
  return decodeName(value)
}

function toSize(value: Buffer): number {
  const text = value.toString('latin1')
  const size = Number(text)
  if (/^\d+$/.test(text) && Number.isSafeInteger(size)) return size
  throw new ArchiveFormatError('It is no tar archive, or is damaged.')
}

function paddingOf(size: number): number {
  return (blockBytes - (size % blockBytes)) % blockBytes
}
