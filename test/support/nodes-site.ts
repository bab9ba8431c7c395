import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { newTokenString } from '#base/token-string.ts'
import { startCeph } from './ceph.ts'
import { type FaultyProxy, startFaultyProxy } from './faulty-proxy.ts'
import { temporaryFolder } from './git.ts'
import { openObjectStore } from './object-store.ts'
import { startPostgres } from './postgres.ts'
import { type Service, startService } from './service.ts'
import { withClockAhead } from './shifted-clock.ts'

/** What lies between a node and its stores. */
type Network = { postgres: FaultyProxy; storage: FaultyProxy | undefined }

type Options = {
  /** By how many minutes the clock of each node is ahead. */
  clocksAhead?: number[]
  env?: Record<string, string>
  /** Whether the object storage may be killed: it is no other test's. */
  hasOwnStorage?: boolean
  /** How long a statement may wait for locks. */
  statementTimeoutMs?: number
}

/**
 * Several nodes on a PostgreSQL and, unless they share that of other tests, an object storage of their own, which may be
 * killed like the nodes. Each node has a network of its own.
 */
export async function openNodesSite(count: number, options: Options = {}) {
  const { clocksAhead = [], env = {}, hasOwnStorage = true, statementTimeoutMs } = options
  await using opening = new AsyncDisposableStack()
  const folder = opening.use(await temporaryFolder())
  const postgres = await startPostgres()
  if (!postgres) throw new Error('PostgreSQL is missing.')
  opening.defer(() => postgres.stop())
  const isShared = process.env.SVC_TEST_S3 || !hasOwnStorage
  const ceph = isShared ? undefined : await startCeph({ osds: 3 })
  opening.defer(() => ceph?.stop())
  const store = opening.use(await openObjectStore(ceph?.url))
  const common = {
    ...store.env,
    SVC_DATABASE_URL: postgres.url,
    SVC_ADMIN_TOKEN: newTokenString(),
    SVC_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    SVC_SSH_PORT: 'off',
    ...env,
  }
  const nodes: Service[] = []
  const networks: Network[] = []
  let directories = 0
  let restarts = 0
  const newDirectory = () => join(folder.path, `node-${directories++}`)
  opening.defer(async () => {
    for (const node of nodes) await node.end('SIGKILL')
  })

  async function connectNode(): Promise<Network> {
    const toPostgres = opening.use(await startFaultyProxy(portOf(postgres?.url ?? '')))
    if (!ceph) return { postgres: toPostgres, storage: undefined }
    const storage = opening.use(await startFaultyProxy(portOf(endpointOf(store.env))))
    return { postgres: toPostgres, storage }
  }

  function envOf(index: number): Record<string, string> {
    const { postgres: toPostgres, storage } = networks[index] ?? {}
    const ahead = clocksAhead[index] ?? 0
    const address = new URL(store.env.SVC_STORE ?? '')
    if (storage) address.searchParams.set('endpoint', `http://127.0.0.1:${storage.port}`)
    const database = new URL(common.SVC_DATABASE_URL)
    if (toPostgres) database.port = String(toPostgres.port)
    if (statementTimeoutMs !== undefined) {
      for (const name of ['statement_timeout', 'query_timeout'])
        database.searchParams.set(name, String(statementTimeoutMs))
    }
    return {
      ...common,
      SVC_STORE: address.href,
      SVC_DATABASE_URL: database.href,
      ...(ahead !== 0 && withClockAhead(ahead)),
    }
  }

  for (let index = 0; index < count; index++) {
    networks.push(await connectNode())
    nodes.push(await startService({ env: envOf(index), dataDir: newDirectory() }))
  }
  const resources = opening.move()

  return {
    nodes,
    networks,
    env: common,
    folder: folder.path,
    postgres,
    osds: ceph?.osds ?? [],

    /** Starts a node again that has ended, on its own directory or on an empty one. */
    async restart(index: number, { isEmpty = false } = {}): Promise<void> {
      restarts++
      const dataDir = isEmpty ? newDirectory() : (nodes[index]?.dataDir ?? newDirectory())
      nodes[index] = await startService({ env: envOf(index), dataDir })
    },

    restarts: () => restarts,

    /** Starts one more node, on an empty directory. */
    async add(): Promise<Service> {
      const node = await startService({ env: common, dataDir: newDirectory() })
      nodes.push(node)
      return node
    },

    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  }
}

function portOf(url: string): number {
  return Number(new URL(url).port)
}

function endpointOf(env: Record<string, string>): string {
  return new URL(env.SVC_STORE ?? '').searchParams.get('endpoint') ?? ''
}
