import { pipeline, Readable } from 'node:stream'
import { constants, createGzip, createZstdDecompress } from 'node:zlib'
import { Problem } from '../base/problem.ts'
import { runFileContentType } from '../runner-api/run-file-transfers.ts'

/** The formats in which an artifact can be downloaded, with their content types. */
export const artifactTypes = {
  'tar.gz': 'application/gzip',
  tar: 'application/x-tar',
  'tar.zst': runFileContentType,
} as const

export type ArtifactFormat = keyof typeof artifactTypes

// 8 MiB: what a content may ask of memory. The default levels of zstd ask for less.
const windowLogMax = 23

/** Converts a content while it is read. Throws `artifact_unreadable` into the stream when it is not zstd, or needs much memory. */
export function convertArtifact(content: Readable, format: ArtifactFormat): Readable {
  if (format === 'tar.zst') return content
  const converted = Readable.from(convert(content, format))
  // Also when it was never read: then the generator has not begun.
  return converted.on('close', () => content.destroy())
}

async function* convert(content: Readable, format: 'tar' | 'tar.gz'): AsyncGenerator<Buffer> {
  const params = { [constants.ZSTD_d_windowLogMax]: windowLogMax }
  const tar = createZstdDecompress({ params })
  // The loop gets the error of each.
  const onEnd = () => {}
  const last =
    format === 'tar' ? pipeline(content, tar, onEnd) : pipeline(content, tar, createGzip(), onEnd)
  try {
    yield* last
  } catch (error) {
    const detail = 'The content is no archive that can be converted; get it as tar.zst.'
    throw new Problem('artifact_unreadable', detail, { cause: error })
  }
}
