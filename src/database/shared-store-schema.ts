/** A ref of a repository in a shared store, also a hidden one. */
export type RefRow = {
  repositoryId: string
  name: string
  objectId: string
  /** The object that an annotated tag points to, at the end of a chain of tags. */
  peeledId: string | null
}

/** A pack of a repository in a shared store. Never changes, except that maintenance retires it. */
export type PackRow = {
  /** The key of its upload: in the object storage, its files are at this key with `.pack` and `.idx`. */
  key: string
  repositoryId: string
  /** The checksum in the name of its files. */
  hash: string
  packBytes: number
  packSha256: string
  idxBytes: number
  idxSha256: string
  mtimesBytes: number | null
  mtimesSha256: string | null
  /** The files themselves while they are small; null when they are in the object storage. */
  pack: Uint8Array | null
  idx: Uint8Array | null
  mtimes: Uint8Array | null
  addedAtVersion: number
  retiredAtVersion: number | null
  retiredAt: number | null
}

/** Files in the object storage that no pack row names yet, or no longer. */
export type UploadRow = {
  key: string
  node: string
  begunAt: number
  /** A dead one can no longer be committed, and its files may be deleted. */
  state: 'open' | 'dead'
}

/** A server of the service. */
export type NodeRow = {
  id: string
  epoch: number
  seenAt: number
  /** The data directory of the server that has the name, on which machine; empty when it is unknown. */
  place: string
  /** The fingerprint of its SSH host key; empty without SSH. */
  hostKey: string
}

/** The service, in one row. */
export type InstanceRow = {
  id: string
  /** The bucket and prefix of a shared store when they were marked with the id. */
  bucket: string | null
  /** The id of an encryption key that every server must have; null before a server with a key has started. */
  keyId: string | null
}
