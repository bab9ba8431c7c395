import { randomBytes } from 'node:crypto'
import { createLog } from '#base/log.ts'
import { newTokenString } from '#base/token-string.ts'
import type { FreeSpace } from '#config/free-space.ts'
import { openDatabase } from '#database/database.ts'
import { createGit } from '#git/process/git-process.ts'
import { createDirectories } from '#repositories/directories/directories.ts'
import { createMarkedBucket } from '#repositories/store/marked-bucket.ts'
import { createSharedStore } from '#repositories/store/shared-store.ts'
import type { Store } from '#repositories/store/store.ts'
import { createPostgresDatabase } from './databases.ts'
import { temporaryFolder } from './git.ts'
import { gitLimits } from './git-limits.ts'
import { openObjectStore } from './object-store.ts'
import { type Service, startService } from './service.ts'

export type StoreSite = Awaited<ReturnType<typeof startStoreSite>>

type StoreOptions = { cacheMaxBytes?: number; measure?: FreeSpace['measure'] }

const unlimited = async () => ({ freeBytes: 2 ** 40, minFreeBytes: 0, freeFiles: 2 ** 20 })
const log = createLog({ level: 'silent', output: process.stderr })

/** A server with a shared store, to whose database and bucket others can be added. */
export async function startStoreSite(more: Record<string, string> = {}) {
  await using starting = new AsyncDisposableStack()
  const database = await createPostgresDatabase()
  starting.defer(() => database.drop())
  const objects = starting.use(await openObjectStore())
  const folder = starting.use(await temporaryFolder())
  const env = {
    ...objects.env,
    SVC_DATABASE_URL: database.url,
    SVC_ADMIN_TOKEN: newTokenString(),
    SVC_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    SVC_SSH_PORT: 'off',
    ...more,
  }
  const service: Service = starting.use(await startService({ env }))
  const resources = starting.move()
  return {
    env,
    service,
    folder: folder.path,

    /** The bucket, as every node has it. */
    connectBucket: () => objects.connect(),

    /** The store as a node has it that is no server. */
    async openStore(
      dataDir: string,
      { cacheMaxBytes, measure = unlimited }: StoreOptions = {},
    ): Promise<Store> {
      const tools = {
        git: createGit({ settings: gitLimits, owner: dataDir, path: process.env.PATH ?? '' }),
        faultPoint: () => {},
      }
      const directories = createDirectories({ dataDir, isCache: true, ...tools })
      await directories.prepare(async () => {})
      const db = await openDatabase({ dataDir: '', url: database.url, log })
      const store = createSharedStore({
        endpoint: objects.address.endpoint,
        db,
        dataDir,
        ...tools,
        storage: createMarkedBucket({
          db,
          storage: objects.connect(),
          address: objects.address,
          log,
        }),
        node: 'test',
        inlineMaxBytes: 1000,
        cacheMaxBytes,
        freeSpace: { measure },
        directories,
        settings: { defaultObjectFormat: 'sha1' },
        log,
      })
      return {
        ...store,
        async [Symbol.asyncDispose]() {
          await store[Symbol.asyncDispose]()
          await db.destroy()
        },
      }
    },

    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  }
}
