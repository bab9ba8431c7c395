import type { ObjectFormat } from '#base/object-id.ts'
import type { Database } from '#database/database.ts'
import type { Db } from '#database/schema.ts'
import type { S3 } from '../s3/s3.ts'
import type { Change, ChangeOutcome, CommittedChange } from './commit-change.ts'
import type { LentPack } from './lent-packs.ts'
import type { LfsFiles } from './lfs-files.ts'
import type { Generation } from './publish-generation.ts'
import type { RepositoryTransaction } from './repository-transactions.ts'

/**
 * Where repositories are durable, and how their files are reached. With a local store a repository is a directory of
 * this machine; with a shared one it is in the database and the object storage, and directories are caches of it.
 */
export type Store = AsyncDisposable & {
  /** Prepares for a server that starts. */
  prepare: () => Promise<void>
  /** Refuses object storage that is not that of the service, or can never work; called when the service has its id. */
  join: () => Promise<void>
  /** Rejects while the object storage does not respond, or is not that of the service. A local store has none. */
  ping: () => Promise<void>
  /** The directory of a repository whose row was just read, in at least the state of that row. */
  at: (repository: { id: string; version: number }) => Promise<StoredDirectory>
  /** The directory of a repository in its present state. A shared store throws `repository_not_found`. */
  open: (id: string) => Promise<string>
  /** Prepares a new repository whose row does not exist yet. Returns columns of that row. */
  create: (
    id: string,
    format: ObjectFormat,
    defaultBranch?: string,
  ) => Promise<{ head?: string | null }>
  /** Makes an imported draft durable. Returns what completes it in the transaction that makes the repository ready. */
  adopt: (id: string) => Promise<(tx: Db) => Promise<void>>
  /** The bytes of the packs of a repository. */
  packBytes: (id: string, db: Db) => Promise<number>
  /** Gives up what a repository has in the store, in the transaction that deletes its row. */
  release: (tx: Db, id: string) => Promise<void>
  /** Removes the directory of a deleted repository. */
  remove: (id: string) => Promise<void>
  /** Tries to have a number of bytes of the disk free beyond the minimum, by removing what is only cached. */
  reclaim: (bytes: number) => Promise<void>
  /** Deletes what no repository needs any more. */
  sweep: () => Promise<void>
  /** The bytes of LFS objects. */
  lfsFiles: LfsFiles
  /** The object storage of a shared store, also for other content than packs; undefined for a local one. */
  bucket: S3 | undefined
  /** Changes refs in the store itself; undefined for a local one, where git changes its files. */
  shared: SharedChanges | undefined
}

/** Changes of repositories in a shared store. */
export type SharedChanges = {
  db: Database
  transaction: RepositoryTransaction
  /** Makes the packs of a folder durable, and the change with them. Throws `repository_not_found`. */
  commit: (change: SharedChange, packFolder: string | undefined) => Promise<ChangeOutcome>
  /** Shows a change in the directory of its repository, once its objects are there. */
  show: (id: string, change: CommittedChange) => Promise<void>
  /** Makes a repository durable that is in a directory of this machine. */
  adoptDirectory: (id: string, directory: string) => Promise<void>
  /**
   * Gives a folder the packs that a repository has in a snapshot of the database, even when it was deleted since. False
   * when it is not in the snapshot.
   */
  copyPacks: (snapshot: Db, id: string, folder: string) => Promise<boolean>
  /** Begins the maintenance of a repository, whose result is durable once it is published. */
  beginGeneration: (id: string) => Promise<Generation>
  /** Packs that belong to no repository, for the other nodes. */
  lentPacks: LentPacks
  /** Returns a repository with large packs in whose directory they have no common index, once. */
  takeUnindexed: () => string | undefined
}

/** Packs that nodes lend to each other for at most an hour. */
export type LentPacks = {
  lend: (repositoryId: string, chunks: AsyncIterable<Buffer>) => Promise<LentPack>
  open: (pack: LentPack) => Promise<AsyncIterable<Buffer>>
  takeBack: (packs: LentPack[]) => Promise<void>
}

/** The directory of a repository, and the prune epoch in which objects are looked for there. */
type StoredDirectory = { path: string; pruneEpoch: number }

/** A change, without its packs. */
type SharedChange = Omit<Change, 'packs'> & {
  /** Whether all objects that it needs are there, looked for after some were pruned. */
  isConnected: () => Promise<boolean>
}
