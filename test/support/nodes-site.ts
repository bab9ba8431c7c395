import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { newTokenString } from '../../src/base/token-string.ts'
import { startCeph } from './ceph.ts'
import { temporaryFolder } from './git.ts'
import { openObjectStore } from './object-store.ts'
import { startPostgres } from './postgres.ts'
import { type Service, startService } from './service.ts'

/** Several nodes on a PostgreSQL and an object storage of their own, which may be killed like the nodes. */
export async function openNodesSite(count: number) {
  await using opening = new AsyncDisposableStack()
  const folder = opening.use(await temporaryFolder())
  const postgres = await startPostgres()
  if (!postgres) throw new Error('PostgreSQL is missing.')
  opening.defer(() => postgres.stop())
  const ceph = process.env.SVC_TEST_S3 ? undefined : await startCeph({ osds: 3 })
  opening.defer(() => ceph?.stop())
  const store = opening.use(await openObjectStore(ceph?.url))
  const env = {
    ...store.env,
    SVC_DATABASE_URL: postgres.url,
    SVC_ADMIN_TOKEN: newTokenString(),
    SVC_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    SVC_SSH_PORT: 'off',
  }
  const nodes: Service[] = []
  let directories = 0
  const newDirectory = () => join(folder.path, `node-${directories++}`)
  opening.defer(async () => {
    for (const node of nodes) await node.end('SIGKILL')
  })
  for (let node = 0; node < count; node++) {
    nodes.push(await startService({ env, dataDir: newDirectory() }))
  }
  const resources = opening.move()

  return {
    nodes,
    env,
    folder: folder.path,
    postgres,
    osds: ceph?.osds ?? [],

    /** Starts a node again that has ended, on its own directory or on an empty one. */
    async restart(index: number, { isEmpty = false } = {}): Promise<void> {
      const dataDir = isEmpty ? newDirectory() : (nodes[index]?.dataDir ?? newDirectory())
      nodes[index] = await startService({ env, dataDir })
    },

    /** Starts one more node, on an empty directory. */
    async add(): Promise<Service> {
      const node = await startService({ env, dataDir: newDirectory() })
      nodes.push(node)
      return node
    },

    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  }
}
