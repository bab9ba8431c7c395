/** A file of runs: in the data directory, or an object in the bucket of a shared store. */
export type RunFileRow = {
  id: string
  repositoryId: string
  /** The server that received it. */
  node: string
  /** It is being received, belongs to an artifact or a cache, or is to be removed. */
  state: 'open' | 'kept' | 'dead'
  size: number
  sha256: string
  /** When it got its state. */
  changedAt: number
}

/** An artifact of a run; its id is that of its file. */
export type ArtifactRow = {
  id: string
  repositoryId: string
  runId: string
  attempt: number
  name: string
  createdAt: number
  expiresAt: number
}

/** A cache that runs share; its id is that of its file. */
export type RunCacheRow = {
  id: string
  repositoryId: string
  /** The branch or tag whose run saved it: its scope. */
  ref: string
  /** 1 when the ref was protected, also before that run was created. */
  isProtected: number
  /** What its client computes of paths and compression. */
  version: string
  key: string
  createdAt: number
  usedAt: number
}
