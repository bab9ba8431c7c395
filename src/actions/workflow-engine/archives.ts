import { once } from 'node:events'
import { posix } from 'node:path'
import { Readable, Transform, type Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib'
import type { CommandEnd } from '../sandbox/sandbox.ts'
import { readSafely, writeFresh } from '../sandbox/workspace-files.ts'
import type { ArchiveContent } from './run-storage.ts'
import type { RunningJob, RunningStep } from './running-job.ts'

/** Bytes of the files of an archive. */
const unpackedMaxBytes = 10 * 1024 ** 3
// Fast, because files are packed while a job waits.
const compressionLevel = 1
// Large, so that few tasks of the thread pool do the work.
const chunkBytes = 512 * 1024
// Of 512 bytes: what tar reads at once.
const blockingFactor = 512
const errorMaxBytes = 256 * 1024

/** Options that all commands of a step for artifacts or caches share. */
export type Archiving = Pick<RunningStep, 'running' | 'number' | 'signal'> & { timeoutMs: number }

/** An archive that could not be packed or unpacked. */
export class ArchiveError extends Error {
  override readonly name = 'ArchiveError'
}

type OfFolder = Archiving & {
  /** The folder to which the names in the archive are relative; it is created if necessary. */
  folder: string
  /** More arguments of tar(1). */
  options?: readonly string[]
}

type Packing = OfFolder & { files: readonly string[] }

/**
 * Packs files with tar in the sandbox, with the rights of a step, and sends them compressed. Returns the result of `send`
 * and the bytes before compression.
 */
export async function packFiles<T>(
  { options = [], files, ...archiving }: Packing,
  send: (content: Readable) => Promise<T>,
): Promise<{ result: T; bytes: number }> {
  const compress = createZstdCompress({
    params: { [constants.ZSTD_c_compressionLevel]: compressionLevel },
  })
  // A receiver that refuses the archive ends the packing, too.
  const over = new AbortController()
  compress.on('error', () => {})
  const sending = send(compress).finally(() => over.abort())
  sending.catch(() => {})
  let bytes = 0
  const end = await runTar({
    ...archiving,
    options: ['--create', ...options, '--null', '--verbatim-files-from', '--files-from=-'],
    stdin: Readable.from(endedWithNul(files), { objectMode: false }),
    signal: AbortSignal.any([archiving.signal, over.signal]),
    async onOutput(chunk) {
      bytes += chunk.length
      if (bytes > unpackedMaxBytes) over.abort()
      if (over.signal.aborted || compress.write(chunk)) return
      await Promise.race([once(compress, 'drain').catch(() => {}), sending.catch(() => {})])
    },
  })
  if (end.isDone) compress.end()
  else compress.destroy(new ArchiveError(end.fault))
  if (bytes > unpackedMaxBytes) throw new ArchiveError(tooLarge)
  if (!end.isDone && !over.signal.aborted) throw new ArchiveError(end.fault)
  return { result: await sending, bytes }
}

/** Unpacks a compressed archive with tar in the sandbox, with the rights of a step. Returns the unpacked bytes. */
export async function unpackFiles(
  archiving: OfFolder & { content: ArchiveContent },
): Promise<number> {
  const { content, options = [], signal } = archiving
  let bytes = 0
  const counted = new Transform({
    highWaterMark: 2 * chunkBytes,
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length
      if (bytes > unpackedMaxBytes) done(new ArchiveError(tooLarge))
      else done(null, chunk)
    },
  })
  const decompress = createZstdDecompress({ chunkSize: chunkBytes })
  let streamError: Error | undefined
  const streaming = pipeline(decompress, counted, { signal }).catch((error: Error) => {
    streamError = error
  })
  const receiving = content(createWriter(decompress)).then(
    () => void decompress.end(),
    (error) => void decompress.destroy(error),
  )
  const end = await runTar({
    ...archiving,
    options: ['--extract', '--file=-', `--blocking-factor=${blockingFactor}`, ...options],
    stdin: counted,
    onInputWritten: freeDecompressed,
    onOutput: () => {},
  })
  decompress.destroy()
  await Promise.all([streaming, receiving])
  signal.throwIfAborted()
  const isOfTar = streamError && 'code' in streamError && isClosed.has(String(streamError.code))
  if (streamError && !isOfTar) throw new ArchiveError(streamError.message, { cause: streamError })
  if (!end.isDone) throw new ArchiveError(end.fault)
  if (bytes === 0) throw new ArchiveError('The archive is empty.')
  return bytes
}

/** Writes bytes to a stream: resolves when it no longer needs them, and rejects when it closes before that. */
function createWriter(stream: Writable): (bytes: Buffer) => Promise<void> {
  const pending = new Set<() => void>()
  stream.once('close', () => {
    for (const cancel of pending) cancel()
  })
  return (bytes) =>
    new Promise((resolve, reject) => {
      const cancel = () => reject(new Error('The stream was closed.'))
      pending.add(cancel)
      stream.write(bytes, (error) => {
        pending.delete(cancel)
        if (error) reject(error)
        else resolve()
      })
    })
}

/**
 * Frees the memory of decompressed bytes, which arrive in order, in parts of buffers: that of a buffer with its last part. To
 * collect it took more time than to decompress.
 */
function freeDecompressed({ buffer, byteOffset, length }: Buffer): void {
  const isLast = byteOffset + length === buffer.byteLength
  if (isLast && buffer instanceof ArrayBuffer) buffer.transfer(0)
}

// The stream ends early when tar does.
const isClosed = new Set(['ERR_STREAM_PREMATURE_CLOSE', 'ABORT_ERR', 'EPIPE'])
const tooLarge = `Its files are larger than ${unpackedMaxBytes / 1024 ** 3} GiB together.`

/** The names, each with a NUL after it, in chunks. */
export function* endedWithNul(files: readonly string[]): Generator<string> {
  const perChunk = 1000
  for (let from = 0; from < files.length; from += perChunk) {
    yield files
      .slice(from, from + perChunk)
      .map((file) => `${file}\0`)
      .join('')
  }
}

type TarCommand = OfFolder & {
  options: readonly string[]
  stdin: Readable
  onInputWritten?: (bytes: Buffer) => void
  onOutput: (bytes: Buffer) => void | Promise<void>
}

type TarEnd = { isDone: true } | { isDone: false; fault: string }

// Standard error is a file: standard output, which shares the job's pipe, is the archive.
const script = 'exec 2>"$1"; mkdir -p -- "$2" && cd -- "$2" || exit; shift 2; exec tar "$@"'

async function runTar({ running, number, folder, options, ...rest }: TarCommand): Promise<TarEnd> {
  const { workspace } = running
  const name = `${number}-tar-errors`
  writeFresh(`${workspace.outside.files}/${name}`, '')
  const end = await workspace.run({
    ...rest,
    command: ['sh', '-c', script, 'sh', `${workspace.inside.files}/${name}`, folder, ...options],
    env: archiveVariables(running),
    cwd: workspace.inside.workspace,
  })
  if (end.reason === 'exited' && end.exitCode === 0) return { isDone: true }
  const errors = await readSafely(`${workspace.outside.files}/${name}`, errorMaxBytes)
  return { isDone: false, fault: toFaultText(end, typeof errors === 'string' ? '' : `${errors}`) }
}

/** The environment of commands of the runner itself, which nothing in the workspace affects. */
export function archiveVariables({ run, workspace }: RunningJob): Record<string, string> {
  return { PATH: run.runner.path, HOME: workspace.inside.home, LANG: 'C.UTF-8' }
}

function toFaultText({ reason, detail, exitCode }: CommandEnd, errors: string): string {
  if (detail !== '') return detail
  if (reason !== 'exited') return `tar was stopped: ${reason.replaceAll('-', ' ')}.`
  const [first = ''] = errors.split('\n')
  return first === '' ? `tar exited with ${exitCode}.` : first
}

type Named = 'workspace' | 'home' | 'temp'

/** The names in an archive of a cache: those in bubblewrap, so that it fits jobs with and without a sandbox. */
const archiveNames: Record<Named, string> = {
  workspace: 'workspace',
  home: 'home/runner',
  temp: 'tmp',
}

/** The folder of the names in archives with files of any directory of a workspace, and options of tar. */
export function cacheLayout(
  { workspace: { inside } }: RunningJob,
  direction: 'pack' | 'unpack',
): { folder: string; options: string[] } {
  const folder = posix.dirname(inside.workspace)
  const rules = (Object.keys(archiveNames) as Named[]).flatMap((key) => {
    const own = posix.relative(folder, inside[key])
    const common = archiveNames[key]
    const [from, to] = direction === 'pack' ? [own, common] : [common, own]
    return own === common ? [] : [`s,^${from}\\(/\\|$\\),${to}\\1,`]
  })
  // Names and hard links, but not the targets of symbolic links.
  const transform = rules.length === 0 ? [] : [`--transform=flags=rSh;${rules.join(';')}`]
  return { folder, options: transform }
}
