import { pipeline, Readable } from 'node:stream'
import { constants, createGzip, createZstdDecompress } from 'node:zlib'
import { ArchiveFormatError } from '../archives/archive-format-error.ts'
import { readTar } from '../archives/read-tar.ts'
import { writeZip } from '../archives/write-zip.ts'
import { Problem } from '../base/problem.ts'
import { runFileContentType } from '../runner-api/run-file-transfers.ts'

/** The formats in which an artifact can be downloaded, with their content types. */
export const artifactTypes = {
  'tar.gz': 'application/gzip',
  zip: 'application/zip',
  tar: 'application/x-tar',
  'tar.zst': runFileContentType,
} as const

export type ArtifactFormat = keyof typeof artifactTypes

// 8 MiB: what an artifact may ask of memory. The default levels of zstd ask for less.
const windowLogMax = 23

/**
 * Converts the file of an artifact while it is read. Throws `artifact_unreadable` into the stream when it is not zstd,
 * needs much memory, or has what the format does not.
 */
export function convertArtifact(
  content: Readable,
  format: Exclude<ArtifactFormat, 'tar.zst'>,
): Readable {
  const converted = Readable.from(convert(content, format))
  // Also when it was never read: then the generator has not begun.
  return converted.on('close', () => content.destroy())
}

type ConvertedFormat = Parameters<typeof convertArtifact>[1]

async function* convert(content: Readable, format: ConvertedFormat): AsyncGenerator<Buffer> {
  try {
    yield* toFormat[format](content)
  } catch (error) {
    const reason = error instanceof ArchiveFormatError ? ` ${error.message}` : ''
    const detail = `The artifact cannot be converted; get it as tar.zst.${reason}`
    throw new Problem('artifact_unreadable', detail, { cause: error })
  }
}

// The reader of the last stream gets the error of each.
const onEnd = () => {}
const decompress = () =>
  createZstdDecompress({ params: { [constants.ZSTD_d_windowLogMax]: windowLogMax } })

const toFormat: Record<ConvertedFormat, (content: Readable) => AsyncIterable<Buffer>> = {
  tar: (content) => pipeline(content, decompress(), onEnd),
  'tar.gz': (content) => pipeline(content, decompress(), createGzip(), onEnd),
  zip: (content) => writeZip(readTar(pipeline(content, decompress(), onEnd))),
}
