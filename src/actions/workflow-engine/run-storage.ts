import type { Readable } from 'node:stream'

/**
 * Keeps the caches and artifacts of a run. Their contents are tar archives, compressed with Zstandard, and untrusted.
 * Rejects with an error text for users.
 */
export type RunStorage = {
  /** Finds a cache by the first key that one has, in full or as its beginning. */
  findCache: (request: {
    keys: readonly string[]
    version: string
    /** Whether the content is not needed. */
    lookupOnly: boolean
    signal: AbortSignal
  }) => Promise<FoundCache | undefined>
  saveCache: (cache: {
    key: string
    version: string
    content: Readable
    signal: AbortSignal
  }) => Promise<'saved' | 'exists'>
  listArtifacts: (signal: AbortSignal) => Promise<{ name: string; size: number }[]>
  artifactContent: (name: string, signal: AbortSignal) => ArchiveContent
  saveArtifact: (artifact: NewArtifact) => Promise<SavedArtifact>
}

/** A cache by its whole key; `content` is undefined when it was only looked up. */
export type FoundCache = { key: string; content: ArchiveContent | undefined }

/** Passes the bytes of an archive on; they are valid until `write` resolves. Called at most once. */
export type ArchiveContent = (write: (bytes: Buffer) => Promise<void>) => Promise<void>

export type NewArtifact = {
  name: string
  /** Undefined for as long as the service keeps artifacts. */
  retentionDays: number | undefined
  /** Whether it replaces one of the same name. */
  overwrite: boolean
  content: Readable
  signal: AbortSignal
}

export type SavedArtifact = {
  id: string
  /** Where it can be downloaded. */
  url: string
  /** Compressed bytes. */
  size: number
  /** In hex, of the compressed content. */
  sha256: string
}
