import { pipeline, Readable } from 'node:stream'
import { createGzip } from 'node:zlib'
import { runFileContentType } from '#actions/runner-api/run-file-transfers.ts'
import { ArchiveFormatError } from '#base/archives/archive-format-error.ts'
import { decompressZstd } from '#base/archives/decompress-zstd.ts'
import { readTar } from '#base/archives/read-tar.ts'
import { writeZip } from '#base/archives/write-zip.ts'
import { Problem } from '#base/problem.ts'

/** The formats in which an artifact can be downloaded, with their content types. */
export const artifactTypes = {
  'tar.gz': 'application/gzip',
  zip: 'application/zip',
  tar: 'application/x-tar',
  'tar.zst': runFileContentType,
} as const

export type ArtifactFormat = keyof typeof artifactTypes

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

const toFormat: Record<ConvertedFormat, (content: Readable) => AsyncIterable<Buffer>> = {
  tar: (content) => pipeline(content, decompressZstd(), onEnd),
  'tar.gz': (content) => pipeline(content, decompressZstd(), createGzip(), onEnd),
  zip: (content) => writeZip(readTar(pipeline(content, decompressZstd(), onEnd))),
}
