import { readInstance } from '#repositories/instance-store.ts'
import { createS3, type S3 } from '#repositories/s3/s3.ts'
import { lfsObjectOf } from '#repositories/store/lfs-bucket.ts'
import { markKey, readMarkIn } from '#repositories/store/marked-bucket.ts'
import type { Check } from '../check.ts'
import type { DoctorContext } from '../context.ts'
import { listStoredFiles, type StoredFiles } from '../doctor-store.ts'
import {
  countOrNo,
  type Findings,
  fault,
  firstOf,
  messageOf,
  ok,
  orOk,
  warning,
} from '../finding.ts'
import { copyLfsObject } from './lfs-check.ts'

const retryMs = 2000
// The collector needs an hour, and a stopped service collects nothing.
const strayAfterMs = 24 * 60 * 60 * 1000

/** Checks that the bucket of a shared store has every pack and every content of runs, and nothing else. */
export const storeCheck: Check = {
  id: 'store',
  title: 'packs, artifacts and caches against the bucket',
  isLong: true,
  async run(context) {
    if (!context.setting('store')) return ok('Repositories are in the data directory.')
    const before = await context.read(listStoredFiles)
    let listed: Map<string, Listed>
    try {
      await using storage = openBucket(context)
      const foreign = await markFindings(context, storage)
      if (foreign) return foreign
      listed = new Map()
      for await (const { key, ...rest } of storage.list('')) listed.set(key, rest)
    } catch (error) {
      return fault(
        `The bucket of SVC_STORE cannot be listed: ${messageOf(error)}`,
        'Start the object storage, or correct SVC_STORE, SVC_STORE_ACCESS_KEY_ID and SVC_STORE_SECRET_ACCESS_KEY.',
      )
    }
    const after = await context.read(listStoredFiles)
    const findings = [
      firstOf(missingFrom(listed, before, after)),
      firstOf(straysIn(listed, before, after)),
    ]
    return orOk(findings, `${countOrNo(after.live.size, 'file')}, all in the bucket.`)
  },
}

type Listed = { bytes: number; modifiedAt: number }

function openBucket(context: DoctorContext): S3 {
  const address = context.setting('store')
  const accessKeyId = context.setting('storeAccessKeyId')
  const secretAccessKey = context.setting('storeSecretAccessKey')
  if (!address || !accessKeyId || !secretAccessKey) throw new Error('Its access key is not set.')
  const credentials = { accessKeyId, secretAccessKey }
  return createS3({ address, credentials, log: context.log, retryMs })
}

/** Detects the bucket of another service, with which every further check would be misleading. */
async function markFindings(context: DoctorContext, storage: S3): Promise<Findings> {
  const { id, bucket } = (await context.read(readInstance)) ?? {}
  const mark = await readMarkIn(storage)
  // Before the first start, or with an older version, there is none.
  if (mark === id || (mark === undefined && !bucket)) return undefined
  const found =
    mark === undefined
      ? `lacks the object ${markKey} with the content ${id}`
      : 'is marked as that of another service'
  return fault(
    `The bucket of SVC_STORE ${found}; no server starts with it.`,
    `Set SVC_STORE as on the other servers${bucket ? ` (${bucket} was marked first)` : ''}; a moved bucket needs all its objects.`,
  )
}

// Maintenance may retire a pack, and the collector delete it, while the bucket is listed.
function missingFrom(
  listed: ReadonlyMap<string, Listed>,
  before: StoredFiles,
  after: StoredFiles,
): Findings {
  const restore =
    'restore the object from a version or a copy of the bucket, or the repository from a backup.'
  return [...after.live].flatMap(([key, { bytes, repository }]) => {
    const lfsObject = lfsObjectOf(key)
    const fix = lfsObject
      ? `${copyLfsObject(lfsObject)}: aws s3 cp FILE s3://BUCKET/PREFIX/${key}`
      : key.startsWith('run-files/')
        ? restore.replace('r', 'R')
        : `On a server that has the repository in its cache: svc repos maintain --full ${repository}. If none has, ${restore}`
    if (!before.live.has(key)) return []
    const object = listed.get(key)
    if (!object) return fault(`${key} of ${repository} is missing in the bucket.`, fix)
    if (object.bytes === bytes) return []
    return fault(`${key} of ${repository} has ${object.bytes} bytes instead of ${bytes}.`, fix)
  })
}

function straysIn(
  listed: ReadonlyMap<string, Listed>,
  before: StoredFiles,
  after: StoredFiles,
): Findings {
  const isKnown = (key: string) =>
    key === markKey || [before, after].some(({ live, others }) => live.has(key) || others.has(key))
  return [...listed]
    .filter(([key, { modifiedAt }]) => !isKnown(key) && Date.now() - modifiedAt > strayAfterMs)
    .map(([key]) =>
      warning(
        `The database does not know ${key} in the bucket.`,
        'If no other database uses this bucket and prefix, and none was restored to an earlier state, delete it.',
      ),
    )
}
