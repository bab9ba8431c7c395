import { newId } from '#base/ids.ts'
import type { Database } from '#database/database.ts'
import type { S3 } from '../s3/s3.ts'
import { asUnavailable } from '../s3/s3-error.ts'
import { type DirectLfsFiles, type LfsFiles, lfsKeyStart } from './lfs-files.ts'
import { abandonUploads, closeUpload, countLaterUploads, insertLaterUploads } from './pack-store.ts'
import { uploadTakenBack } from './store-error.ts'
import { withUploads } from './uploads.ts'

type Dependencies = {
  db: Database
  /** The name of this node. */
  node: string
  storage: Pick<S3, 'putWhileWritten' | 'get' | 'head' | 'signGet' | 'signPut' | 'verifiesUploads'>
  /** The origin of the bucket. */
  endpoint: string
}

const readBytes = 8 * 1024 * 1024
const signedSeconds = 15 * 60
// The most that S3 stores in one request.
const putMaxBytes = 5 * 1024 ** 3
// A client may take this long to upload an object and have it verified.
const uploadMs = 24 * 60 * 60_000
// The most that clients of a repository may have announced; they upload more through the server.
const maxAnnounced = 10_000

const keyOf = (repositoryId: string, oid: string, uploadId: string) =>
  `${lfsKeyStart}${repositoryId}/${oid}/${uploadId}`

/** The LFS object that a key is of; undefined for other keys. */
export function lfsObjectOf(key: string): { repositoryId: string; oid: string } | undefined {
  if (!key.startsWith(lfsKeyStart)) return undefined
  const [repositoryId = '', oid = ''] = key.slice(lfsKeyStart.length).split('/')
  return { repositoryId, oid }
}

/** The objects of repositories in a shared store. */
export function createBucketLfsFiles(dependencies: Dependencies): LfsFiles {
  const { db, node, storage } = dependencies

  return {
    direct: createDirectLfsFiles(dependencies),

    async place({ repositoryId, oid }, file, commit) {
      const bucketKey = keyOf(repositoryId, oid, newId())
      await withUploads({ db, node }, async (uploads) => {
        const signal = AbortSignal.any([file.signal, uploads.signal])
        // A body that is refused before has left nothing to collect.
        const onBegin = () => uploads.open(bucketKey)
        const options = { signal, onBegin }
        const size = await storage.putWhileWritten(bucketKey, file, options).catch(asUnavailable)
        await db.transaction().execute(async (tx) => {
          if (!(await closeUpload(tx, bucketKey))) throw uploadTakenBack()
          if (!(await commit(tx, { bucketKey, size }))) await abandonUploads(tx, [bucketKey])
        })
      })
      return true
    },

    remove: (_repositoryId, deleteRows) =>
      db.transaction().execute(async (tx) => {
        const rows = await deleteRows(tx)
        await abandonUploads(
          tx,
          rows.flatMap(({ bucketKey }) => bucketKey ?? []),
        )
        return rows.length
      }),

    // The collector deletes uploads that were never completed.
    removeStray: async () => {},

    async open({ bucketKey, size }) {
      if (bucketKey === null || (await findSize(storage, bucketKey)) !== size) return undefined
      return {
        async *read({ start, bytes }, signal) {
          for (let at = start; at < start + bytes; at += readBytes) {
            const range = { start: at, bytes: Math.min(readBytes, start + bytes - at) }
            yield await storage.get(bucketKey, { signal, range }).catch(asUnavailable)
          }
        },
        async [Symbol.asyncDispose]() {},
      }
    },
  }
}

function createDirectLfsFiles({ db, storage, endpoint }: Dependencies): DirectLfsFiles {
  let isVerifying: Promise<boolean> | undefined

  /** Whether the bucket accepts only bytes with the signed SHA-256, which is tried once. */
  function isVerifyingUploads(): Promise<boolean> {
    isVerifying ??= storage.verifiesUploads(`${lfsKeyStart}verification/${newId()}`)
    isVerifying.catch(() => {
      isVerifying = undefined
    })
    return isVerifying
  }

  return {
    endpoint,

    async linksToDownload(objects) {
      const links = objects.map(async ({ oid, bucketKey }) =>
        bucketKey === null
          ? undefined
          : ([oid, await storage.signGet(bucketKey, signedSeconds)] as const),
      )
      return new Map((await Promise.all(links)).filter((link) => link !== undefined))
    },

    async linksToUpload(repositoryId, pointers) {
      const fitting = pointers.filter(({ size }) => size <= putMaxBytes)
      if (fitting.length === 0 || !(await isVerifyingUploads().catch(asUnavailable)))
        return new Map()
      const announced = await countLaterUploads(db, repositoryId)
      if (announced + fitting.length > maxAnnounced) return new Map()
      const uploads = fitting.map(({ oid }) => ({ oid, uploadId: newId() }))
      const keys = uploads.map(({ oid, uploadId }) => keyOf(repositoryId, oid, uploadId))
      await insertLaterUploads(db, repositoryId, keys, uploadMs)
      const links = uploads.map(async ({ oid, uploadId }) => {
        const signed = await storage.signPut(keyOf(repositoryId, oid, uploadId), oid)
        return [oid, { ...signed, uploadId }] as const
      })
      return new Map(await Promise.all(links).catch(asUnavailable))
    },

    async complete({ repositoryId, oid, uploadId, size }, commit) {
      const key = keyOf(repositoryId, oid, uploadId)
      const bytes = await findSize(storage, key)
      if (bytes !== size) return bytes
      return db.transaction().execute(async (tx) => {
        // Another verification of it was first, or it comes too late: then there is no row.
        if (!(await closeUpload(tx, key))) return undefined
        if (!(await commit(tx, { bucketKey: key, size }))) await abandonUploads(tx, [key])
        return bytes
      })
    },
  }
}

/** The size of an object; undefined when there is none. */
async function findSize(storage: Pick<S3, 'head'>, key: string): Promise<number | undefined> {
  const found = await storage.head(key).catch(asUnavailable)
  return found?.bytes
}
