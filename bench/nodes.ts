import { randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { newTokenString } from '#base/token-string.ts'
import { startCeph } from '../test/support/ceph.ts'
import { startPostgres } from '../test/support/postgres.ts'
import type { Fixtures } from './fixtures.ts'
import {
  measureBigPush,
  measureClone,
  measureFetch,
  measureListing,
  measureSmallPush,
  publish,
} from './git-commands.ts'
import { measureFill } from './nodes-fill.ts'
import { measureScaling } from './nodes-scaling.ts'
import { print } from './print.ts'
import { type Row, timeRow } from './rows.ts'
import { startSvc } from './svc.ts'
import type { Target } from './wire-client.ts'
import type { Workspace } from './workspace.ts'

type NodesEffort = {
  listings: number
  fetches: number
  clones: number
  smallPushes: number
  bigPushes: number
  packs: number
  seconds: number
}

const scalingMs = 2000

/**
 * Compares nodes of a shared store with one svc on PostgreSQL and its own directories. PostgreSQL and Ceph run on this
 * machine and share its cores.
 */
export async function measureNodes(
  workspace: Workspace,
  fixtures: Fixtures,
  { seconds, packs, ...effort }: NodesEffort,
): Promise<Row[]> {
  await using engines = await startEngines()
  if (!engines) {
    print('PostgreSQL or Ceph is missing: apt-get install postgresql ceph-mon ceph-osd radosgw')
    return []
  }
  const { folder } = workspace
  await using one = await startSvc({ dataDir: join(folder, 'data-one'), env: engines.one })
  const startNode = (name: string, env?: Record<string, string>) =>
    startSvc({ dataDir: join(folder, `data-${name}`), env: { ...engines.node, ...env } })
  await using first = await startNode('first')
  await using second = await startNode('second')
  const hosts = { svc: first.host, peer: one.host }
  const { history } = fixtures
  const addresses = {
    svc: await publish(workspace, hosts.svc, history),
    peer: await publish(workspace, hosts.peer, history),
  }
  const upTo = (rounds: number) => ({ rounds, seconds })
  const rows = [
    timeRow('nodes: ls-remote', await measureListing(workspace, addresses, upTo(effort.listings))),
    timeRow(
      'nodes: fetch without changes',
      await measureFetch(workspace, addresses, upTo(effort.fetches)),
    ),
    timeRow('nodes: clone', await measureClone(workspace, addresses, upTo(effort.clones))),
    timeRow(
      'nodes: push of a commit',
      await measureSmallPush(workspace, addresses, { ...fixtures, ...upTo(effort.smallPushes) }),
    ),
    timeRow(
      'nodes: push of 256 MiB',
      await measureBigPush(workspace, hosts, { ...fixtures, ...upTo(effort.bigPushes) }),
    ),
  ]

  print(`Pushing ${packs} commits, each read through another node`)
  const later: number[] = []
  const name = 'busy'
  const address = await first.host.create(name)
  const other = second.target(name)
  for (const commit of fixtures.steps.slice(0, packs)) {
    const update = `${commit}:refs/heads/work`
    await workspace.git(['-C', history.path, 'push', '--quiet', address, update])
    const [changed, same] = [await timeToList(other, commit), await timeToList(other, commit)]
    later.push(changed - same)
  }
  rows.push({
    name: 'nodes: ls-refs after the push of another node, more than the next one',
    unit: 'ms',
    values: { svc: medianOf(later) },
    rounds: later.length,
  })

  const starts: number[] = []
  for (let round = 0; round < effort.clones; round++) {
    const dataDir = join(folder, 'data-new')
    const startedAt = performance.now()
    await using empty = await startSvc({ dataDir, env: engines.node })
    await timeToList(empty.target(name), fixtures.steps[packs - 1] ?? '')
    starts.push(performance.now() - startedAt)
    await empty.stop()
    await rm(dataDir, { recursive: true })
  }
  rows.push({
    name: 'nodes: first listing of an empty node, from its start',
    unit: 'ms',
    values: { svc: medianOf(starts) },
    rounds: starts.length,
  })

  const cold: number[] = []
  for (let round = 0; round < effort.clones; round++) {
    const dataDir = join(folder, 'data-cold')
    await using empty = await startSvc({ dataDir, env: engines.node })
    const clone = async () => {
      const from = `${empty.url.replace('://', `://git:${empty.adminToken}@`)}/repos/${name}.git`
      const { elapsedMs } = await workspace.git(['clone', '--quiet', '--mirror', from, 'cold'])
      await rm(join(folder, 'cold'), { recursive: true })
      return elapsedMs
    }
    const [before, after] = [await clone(), await clone()]
    cold.push(before - after)
    await empty.stop()
    await rm(dataDir, { recursive: true })
  }
  rows.push({
    name: 'nodes: first clone of an empty node, more than the next one',
    unit: 'ms',
    values: { svc: medianOf(cold) },
    rounds: cold.length,
  })
  await Promise.all([one.stop(), first.stop(), second.stop()])
  print('Filling empty nodes with 256 MiB')
  const { bucket } = engines
  rows.push(await measureFill(workspace, { fixtures, startNode, bucket, rounds: effort.clones }))
  print('Listing through one, two and three nodes, each with a quarter of a core')
  const scaling = { startNode, repository: name, postgres: engines.postgres }
  rows.push(...(await measureScaling({ ...scaling, rounds: effort.clones, ms: scalingMs })))
  return rows
}

async function startEngines() {
  await using starting = new AsyncDisposableStack()
  const [ofOne, ofNodes] = [await startPostgres(), await startPostgres()]
  starting.defer(() => ofOne?.stop())
  starting.defer(() => ofNodes?.stop())
  const ceph = await startCeph().catch(() => undefined)
  starting.defer(() => ceph?.stop())
  if (!ofOne || !ofNodes || !ceph) return undefined
  const url = new URL(ceph.url)
  const [keyId, secret] = [url.username, url.password]
  url.username = ''
  url.password = ''
  const running = starting.move()
  return {
    postgres: ofNodes,
    bucket: ceph.url,
    one: { SVC_DATABASE_URL: ofOne.url },
    node: {
      SVC_DATABASE_URL: ofNodes.url,
      SVC_STORE: url.href,
      SVC_STORE_ACCESS_KEY_ID: keyId,
      SVC_STORE_SECRET_ACCESS_KEY: secret,
      SVC_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
      SVC_ADMIN_TOKEN: newTokenString(),
      SVC_SSH_PORT: 'off',
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

/** Lists the refs of a repository, which must have a commit; the time in ms. */
async function timeToList({ url, authorization = '' }: Target, commit: string): Promise<number> {
  const startedAt = performance.now()
  const address = `${url}/info/refs?service=git-upload-pack`
  const response = await fetch(address, { headers: { authorization } })
  const text = await response.text()
  const elapsedMs = performance.now() - startedAt
  if (!text.includes(commit)) throw new Error(`A node does not show ${commit}.`)
  return elapsedMs
}

function medianOf(values: number[]): number {
  return values.sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}
