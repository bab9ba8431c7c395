import type { Readable } from 'node:stream'
import type { LfsPointer } from '../objects/lfs-pointers.ts'

/** Reads objects of Git LFS from the source of an import. */
export type LfsSource = {
  /**
   * Passes on each object that the source has, several at a time. One that fails does not end it. Throws the signal's
   * reason.
   */
  read: (reading: LfsReading) => Promise<void>
}

export type LfsReading = {
  pointers: readonly LfsPointer[]
  /** `lfs.url` of the imported repository, or undefined. */
  lfsUrl: string | undefined
  /** Takes the bytes of an object, which may be others than those of the pointer. */
  receive: (pointer: LfsPointer, body: Readable) => Promise<void>
  /** Called for objects that the source does not have, or that failed. */
  onFault: (fault: unknown) => void
  /** Requests to a source that sends nothing end after this time. */
  stallMs: number
  signal: AbortSignal
}

export const maxConcurrentLfsObjects = 4
