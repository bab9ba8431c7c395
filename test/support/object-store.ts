import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { AwsClient } from 'aws4fetch'
import { forEachConcurrently } from '#base/for-each-concurrently.ts'
import { createLog } from '#base/log.ts'
import { Sensitive } from '#base/sensitive.ts'
import { parseStoreAddress, type StoreAddress } from '#config/store-settings.ts'
import { createS3, type S3 } from '#repositories/s3/s3.ts'
import { elementsOf } from '#repositories/s3/xml-elements.ts'
import { type Ceph, startCeph } from './ceph.ts'
import { without } from './programs.ts'

/** For a test's `skip`: tests of object storage use Ceph, or the store that SVC_TEST_S3 names. */
export const withoutObjectStore = process.env.SVC_TEST_S3 ? false : without('ceph')

type ClientOptions = Partial<Parameters<typeof createS3>[0]>

/** A part of the store that no other test uses. It is emptied when disposed of. */
export type ObjectStore = AsyncDisposable & {
  /** SVC_STORE and the credentials. */
  env: Record<string, string>
  address: StoreAddress
  connect: (options?: ClientOptions) => S3
  /** The ids of uploads in parts that are neither complete nor aborted. */
  uploads: () => Promise<string[]>
}

/**
 * Gives a test a prefix of its own in the bucket of Ceph, or of SVC_TEST_S3, an address as in SVC_STORE but with
 * credentials: `s3://key-id:secret@bucket/prefix?endpoint=http://host`.
 */
export async function openObjectStore(place?: string): Promise<ObjectStore> {
  const url = new URL(place ?? process.env.SVC_TEST_S3 ?? (await sharedCeph()))
  const [accessKeyId = '', secretAccessKey = ''] = [url.username, url.password].map(
    decodeURIComponent,
  )
  url.username = ''
  url.password = ''
  url.pathname = `${url.pathname.replace(/\/$/, '')}/test-${randomBytes(8).toString('hex')}`
  const address = parseStoreAddress(url.href)
  if (!address) throw new Error(`Not an address of a store: ${url.href}`)
  const credentials = {
    accessKeyId: new Sensitive(accessKeyId),
    secretAccessKey: new Sensitive(secretAccessKey),
  }
  const connect = (options: ClientOptions = {}) =>
    createS3({ address, credentials, log, ...options })
  return {
    env: {
      SVC_STORE: url.href,
      SVC_STORE_ACCESS_KEY_ID: accessKeyId,
      SVC_STORE_SECRET_ACCESS_KEY: secretAccessKey,
    },
    address,
    connect,
    async uploads() {
      const client = new AwsClient({
        accessKeyId,
        secretAccessKey,
        service: 's3',
        region: address.region,
      })
      const { endpoint, bucket, prefix } = address
      const response = await client.fetch(`${endpoint}/${bucket}?uploads&prefix=${prefix}`)
      return [...elementsOf(await response.text(), 'UploadId')]
    },
    async [Symbol.asyncDispose]() {
      await using s3 = connect()
      const keys = await Array.fromAsync(s3.list(''), ({ key }) => key)
      await forEachConcurrently(8, keys, (key) => s3.delete(key))
    },
  }
}

const log = createLog({ level: 'silent', output: process.stderr })

/** Starts one Ceph for all tests of a run, when the first test needs it; tests find it by SVC_TEST_CEPH. */
export async function offerCeph(): Promise<{ stop: () => Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-ceph-offer-'))
  const path = join(folder, 'socket')
  let starting: Promise<Ceph> | undefined
  const server = createServer((socket) => {
    socket.on('error', () => {})
    starting ??= startCeph()
    starting.then(
      ({ url }) => socket.end(JSON.stringify({ url })),
      (error) => socket.end(JSON.stringify({ fault: String(error) })),
    )
  })
  server.listen(path).unref()
  await once(server, 'listening')
  process.env.SVC_TEST_CEPH = path
  return {
    async stop() {
      server.close()
      const ceph = await starting?.catch(() => undefined)
      await ceph?.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** The port of the bucket of this run. */
export async function bucketPort(): Promise<number> {
  const { searchParams } = new URL(process.env.SVC_TEST_S3 ?? (await sharedCeph()))
  return Number(new URL(searchParams.get('endpoint') ?? '').port)
}

/** The address of the Ceph of this run, in the form of SVC_TEST_S3. */
export async function sharedCeph(): Promise<string> {
  const answer = await text(connect(process.env.SVC_TEST_CEPH ?? ''))
  const { url, fault }: { url?: string; fault?: string } = JSON.parse(answer)
  if (url === undefined) throw new Error(fault)
  return url
}
