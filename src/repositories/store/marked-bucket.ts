import type { Log } from '#base/log.ts'
import { SettingsError } from '#config/settings.ts'
import type { StoreAddress } from '#config/store-settings.ts'
import type { Database } from '#database/database.ts'
import { lockStart } from '#database/migrate.ts'
import type { Db } from '#database/schema.ts'
import type { S3 } from '../s3/s3.ts'
import { S3Error } from '../s3/s3-error.ts'
import { listUploaded, readMark, recordMark } from './bucket-mark-store.ts'

/** The object that contains the id of the service whose bucket it is. */
export const markKey = 'instance'

/**
 * The bucket and prefix of a service, which its first server has marked. Nothing is stored before the mark was seen, and
 * `ping` succeeds while it can be.
 */
export type MarkedBucket = S3 & {
  /**
   * Looks for the mark, for a server that starts. Throws a SettingsError for a bucket that can never work. One that does
   * not respond may do so later, so this is only logged.
   */
  join: () => Promise<void>
}

type Dependencies = { db: Database; storage: S3; address: StoreAddress; log: Log }

const pingTimeoutMs = 2000
const maxSampled = 10

export function createMarkedBucket({ db, storage, address, log }: Dependencies): MarkedBucket {
  const place = `s3://${[address.bucket, address.prefix].filter((part) => part !== '').join('/')}`
  let ownId: string | undefined
  let isAway = false

  async function verify(signal?: AbortSignal): Promise<void> {
    const found = await readMarkIn(storage, signal)
    if (ownId === undefined) ownId = await db.transaction().execute(markFirst)
    else if (found !== ownId) throw wrongMark(found, ownId, place)
  }

  /** Returns the id of the service, with which the bucket is marked unless another one was. */
  async function markFirst(tx: Db): Promise<string> {
    await lockStart(tx)
    const { id, bucket } = await readMark(tx)
    const found = await readMarkIn(storage)
    if (found === undefined && bucket === null) {
      const keys = await listUploaded(tx, maxSampled)
      if (await lacksAll(keys)) throw foreign(`it has no ${keys[0]}`)
      await storage.put(markKey, Buffer.from(`${id}\n`))
    } else if (found !== id) throw wrongMark(found, id, bucket)
    if (bucket === null) await recordMark(tx, place)
    return id
  }

  async function lacksAll(keys: string[]): Promise<boolean> {
    for (const key of keys) if (await storage.head(key)) return false
    return keys.length > 0
  }

  function wrongMark(found: string | undefined, id: string, bucket: string | null): S3Error {
    const first = bucket === null || bucket === place ? '' : `, and ${bucket} was marked first`
    return found === undefined
      ? foreign(`it lacks the object ${markKey} with the content ${id}${first}`)
      : foreign(`its object ${markKey} has the id of another one${first}`)
  }

  function foreign(reason: string): S3Error {
    const advice = 'Set SVC_STORE as on the other servers; a moved bucket needs all its objects'
    return new S3Error('rejected', `${place} is not that of this service: ${reason}. ${advice}`)
  }

  return {
    ...storage,

    async join() {
      await verify().catch((error) => {
        if (!(error instanceof S3Error)) throw error
        if (error.code !== 'unavailable') throw unusable(error, address)
        log.error({ reason: error.message }, 'object store does not respond')
      })
    },

    async ping() {
      try {
        await verify(AbortSignal.timeout(pingTimeoutMs))
        isAway = false
      } catch (error) {
        if (!isAway) log.error({ err: error }, 'object store unavailable')
        isAway = true
        throw error
      }
    },

    async signPut(...values) {
      if (ownId === undefined) await verify()
      return storage.signPut(...values)
    },

    async put(...values) {
      if (ownId === undefined) await verify()
      await storage.put(...values)
    },

    async putWhileWritten(...values) {
      if (ownId === undefined) await verify()
      return storage.putWhileWritten(...values)
    },
  }
}

/** Reads the id in the mark of a bucket; undefined without one. */
export async function readMarkIn(
  storage: Pick<S3, 'get'>,
  signal?: AbortSignal,
): Promise<string | undefined> {
  try {
    return (await storage.get(markKey, signal && { signal })).toString('utf8').trim()
  } catch (error) {
    if (error instanceof S3Error && error.code === 'absent') return undefined
    throw error
  }
}

const refusals = ['AccessDenied', 'InvalidAccessKeyId', 'SignatureDoesNotMatch']

function unusable({ storeCode, message }: S3Error, { bucket, endpoint }: StoreAddress): Error {
  if (storeCode === 'NoSuchBucket')
    return new SettingsError(
      `SVC_STORE: there is no bucket ${bucket} at ${endpoint}; create it, or correct SVC_STORE.`,
    )
  if (!refusals.includes(storeCode)) return new SettingsError(`SVC_STORE: ${message}.`)
  return new SettingsError(
    `SVC_STORE_ACCESS_KEY_ID, SVC_STORE_SECRET_ACCESS_KEY: ${endpoint} refuses them for the bucket ${bucket} (${storeCode}); correct them, or the rights of the key.`,
  )
}
