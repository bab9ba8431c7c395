import type { Clock } from '#base/clock.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import { newId } from '#base/ids.ts'
import { Problem } from '#base/problem.ts'
import type { FreeSpace } from '#config/free-space.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import type { Db } from '#database/schema.ts'
import { receiveFile } from '#http/receive-file.ts'
import type { BodyStream } from '#http/route.ts'
import type { Directories } from './directories/directories.ts'
import { insertLfsObject, listLfsObjects, renewLfsObjects } from './lfs-object-store.ts'
import { enforceByteLimit, findBytesLeft } from './namespace-limits.ts'
import { asGone, repositoryDeleted } from './repository-errors.ts'
import type { DirectLfsFiles, OnWritten, OpenLfsFile } from './store/lfs-files.ts'
import type { Store } from './store/store.ts'

/**
 * The objects of Git LFS. Each belongs to a repository: that another one has the same bytes makes no difference. An object
 * exists when its row does, which is inserted after its bytes are durable.
 */
export type LfsObjects = {
  /** The sizes of those of some objects that a repository has, by their ids. */
  sizesOf: (repositoryId: string, oids: readonly string[]) => Promise<ReadonlyMap<string, number>>
  /** The same for a client that is about to push pointers to them: they stay for a while even without. */
  renewedSizesOf: LfsObjects['sizesOf']
  /**
   * Adds an object from a stream. Throws `lfs_object_invalid` when the bytes are others, `body_too_large`, `storage_full`,
   * `namespace_full`, `request_timed_out`, `malformed_request` and `repository_not_found`.
   */
  add: (object: LfsObject, content: Content) => Promise<void>
  /** How many more bytes a repository may take, and the Problem of what takes more; undefined without a limit. */
  bytesLeft: (repositoryId: string) => Promise<{ bytes: number; problem: Problem } | undefined>
  /** Transfers between clients and a bucket; undefined where objects are files of this machine. */
  direct: DirectLfs | undefined
  /** Opens an object. Throws `lfs_object_not_found`. */
  open: (object: LfsObject) => Promise<OpenLfsObject>
}

/** Transfers of objects between clients and a bucket. */
type DirectLfs = Pick<DirectLfsFiles, 'endpoint' | 'linksToUpload'> & {
  /** Links to those of some objects that a repository has, by their ids. */
  linksToDownload: (
    repositoryId: string,
    oids: readonly string[],
  ) => ReturnType<DirectLfsFiles['linksToDownload']>
  /**
   * Adds an object that a client has uploaded to the bucket, unless its size is another one. Returns the size of the upload;
   * undefined when there is none, or it comes too late.
   */
  complete: (upload: LfsObject & { uploadId: string; size: number }) => Promise<number | undefined>
}

/** An object by its repository and its SHA-256 in hex. */
type LfsObject = { repositoryId: string; oid: string }

type Content = {
  body: BodyStream
  signal: AbortSignal
  /** How long the body may stop; by default like a client's. */
  stallMs?: number
  /** The draft among whose files it is received, which is locked; by default none. */
  draftId?: string
}

type OpenLfsObject = OpenLfsFile & { size: number }

type Dependencies = {
  db: Database
  store: Pick<Store, 'lfsFiles'>
  directories: Pick<Directories, 'scratchOf' | 'removeScratch'>
  settings: Pick<PlainSettings, 'lfsObjectMaxBytes' | 'gitStallSeconds'>
  freeSpace: Pick<FreeSpace, 'require'>
  clock: Clock
  faultPoint: FaultPoint
}

export function createLfsObjects(dependencies: Dependencies): LfsObjects {
  const { db, store, directories, settings, freeSpace, clock, faultPoint } = dependencies

  async function sizesOf(repositoryId: string, oids: readonly string[]) {
    const rows = oids.length === 0 ? [] : await listLfsObjects(db, repositoryId, oids)
    return new Map(rows.map(({ oid, size }) => [oid, size]))
  }

  async function renewedSizesOf(repositoryId: string, oids: readonly string[]) {
    if (oids.length > 0) await renewLfsObjects(db, { repositoryId, oids, now: clock.now() })
    return sizesOf(repositoryId, oids)
  }

  /** A file that receives the bytes of an object, and refuses others. */
  function toReceiving(path: string, oid: string, content: Content) {
    const { body, signal, stallMs = settings.gitStallSeconds * 1000 } = content
    const { declaredBytes = Number.POSITIVE_INFINITY } = body
    const maxBytes = Math.min(declaredBytes, settings.lfsObjectMaxBytes)

    async function write(onWritten?: OnWritten): Promise<number> {
      const receiving = { body, path, signal, freeSpace, stallMs, maxBytes, onWritten }
      const { size, sha256 } = await receiveFile(receiving)
      if (sha256 !== oid) {
        const detail = `The body has the SHA-256 ${sha256} and not ${oid}; nothing was stored.`
        throw new Problem('lfs_object_invalid', detail)
      }
      faultPoint('lfs.received')
      return size
    }

    return { path, maxBytes, signal, write }
  }

  async function insert(tx: Db, row: LfsObject & { size: number; bucketKey: string | null }) {
    faultPoint('lfs.placed')
    const now = clock.now()
    const times = { createdAt: now, renewedAt: now, checkedAt: now }
    const isNew = await insertLfsObject(tx, { ...row, ...times }).catch(asGone(repositoryDeleted))
    if (isNew) await enforceByteLimit(tx, row.repositoryId, row.size)
    return isNew
  }

  function toDirect(files: DirectLfsFiles): DirectLfs {
    return {
      ...files,

      async linksToDownload(repositoryId, oids) {
        const rows = oids.length === 0 ? [] : await listLfsObjects(db, repositoryId, oids)
        return files.linksToDownload(rows)
      },

      complete({ repositoryId, oid, uploadId, size }) {
        const upload = { repositoryId, oid, uploadId, size }
        return files.complete(upload, (tx, placed) => insert(tx, { repositoryId, oid, ...placed }))
      },
    }
  }

  return {
    direct: store.lfsFiles.direct && toDirect(store.lfsFiles.direct),

    sizesOf,

    renewedSizesOf,

    bytesLeft: (repositoryId) => findBytesLeft(db, repositoryId),

    async add({ repositoryId, oid }, content) {
      const { draftId = newId(), body } = content
      const left = await findBytesLeft(db, repositoryId)
      if (left && (body.declaredBytes ?? 0) > left.bytes) throw left.problem
      const scratchName = `lfs-${oid}`
      const path = directories.scratchOf(draftId, scratchName)
      try {
        const isPlaced = await store.lfsFiles.place(
          { repositoryId, oid },
          toReceiving(path, oid, content),
          (tx, placed) => insert(tx, { repositoryId, oid, ...placed }),
        )
        if (!isPlaced) throw repositoryDeleted()
      } finally {
        await directories.removeScratch(draftId, scratchName)
      }
    },

    async open({ repositoryId, oid }) {
      const [row] = await listLfsObjects(db, repositoryId, [oid])
      if (!row) throw lfsObjectNotFound(oid)
      const file = await store.lfsFiles.open(row)
      if (file) return { ...file, size: row.size }
      const cause = new Error(`The file of the LFS object ${oid} of ${repositoryId} is missing`)
      throw new Problem(
        'repository_damaged',
        `The file of the Git LFS object ${oid} is missing or incomplete. The server's administrator can put it back: \`svc doctor\` says how.`,
        { cause },
      )
    },
  }
}

/** The Problem of an object that a repository does not have. */
export function lfsObjectNotFound(oid: string): Problem {
  return new Problem(
    'lfs_object_not_found',
    `The repository has no Git LFS object ${oid}: it was never uploaded, or has been deleted.`,
  )
}
