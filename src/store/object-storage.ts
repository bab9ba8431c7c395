/** Durable files by key, which never change: an S3-compatible service. */
export type ObjectStorage = {
  /** Stores a file durably. */
  put: (key: string, source: { path: string; bytes: number }) => Promise<void>
  /** Writes an object to a new file; returns its SHA-256 in hex, or undefined when there is no such object. */
  getToFile: (key: string, path: string, bytes: number) => Promise<{ sha256: string } | undefined>
  /** Deletes an object if it is there. */
  delete: (key: string) => Promise<void>
}
