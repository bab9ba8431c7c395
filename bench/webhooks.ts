import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { newId } from '#base/ids.ts'
import { gitHeaders, pushBody } from '../test/support/raw-git.ts'
import { makeProject } from './fixtures.ts'
import { serverCoreCount } from './isolation.ts'
import { compare, type Effort } from './measure.ts'
import { type Medians, mapServers, type Row, timeRow } from './rows.ts'
import { type Svc, startSvc } from './svc.ts'
import { type Request, startWireClient } from './wire-client.ts'
import type { Workspace } from './workspace.ts'

const webhooks = 20
const branches = 250
const deliveries = webhooks * branches
const usualBytes = 3000
const listed = 100_000
const pageLength = 100
const repository = 'webhooks'

/** Measures deliveries to a receiver that responds at once. */
export async function measureWebhooks(
  workspace: Workspace,
  effort: { toReceivers: number; deliveries: number; lists: number; seconds: number },
): Promise<Row[]> {
  const { seconds } = effort
  const upTo = (rounds: number) => ({ rounds, seconds })
  const dataDir = join(workspace.folder, 'data-webhooks')
  const { path } = await makeProject(workspace, repository, { 'readme.txt': 'Hello\n' })
  await using svc = await startSvc({ dataDir })
  await svc.host.create(repository)
  const toReceiver = await measureToReceiver(svc, path, upTo(effort.toReceivers))
  await svc.stop()
  // A fresh one: the deliveries are measured without the memory of earlier pushes.
  await using fresh = await startSvc({ dataDir })
  const delivered = await compareDeliveries(fresh, path, upTo(effort.deliveries))
  await fresh.host.remove(repository)
  await fresh.host.create(repository)
  const webhookId = await addWebhook(fresh, 'http://127.0.0.1:9/')
  await fresh.stop()
  fillDeliveries(dataDir, webhookId)
  await using filled = await startSvc({ dataDir })
  const list = await measureList(filled, webhookId, upTo(effort.lists))
  await filled.stop()
  return [
    timeRow('webhooks: response of a push to its delivery', toReceiver),
    { name: 'webhooks: 5,000 deliveries', unit: 'per second', ...delivered },
    timeRow('webhooks: first page of 100,000 deliveries', list),
  ]
}

/** From the last byte of a push's response to the first byte of its delivery. */
async function measureToReceiver(svc: Svc, path: string, effort: Effort): Promise<Medians> {
  await using receiver = await startReceiver()
  const id = await addWebhook(svc, receiver.url)
  const toReceiver = async (round: number) => {
    const body = await pushBody(path, `measured-${round}`)
    const arrived = receiver.untilArrived(1)
    const respondedAt = await push(svc, body)
    return (await arrived) - respondedAt
  }
  const medians = await compare('response of a push to its delivery', { svc: toReceiver }, effort)
  await svc.call('DELETE', `/repos/${repository}/webhooks/${id}`)
  return medians
}

/**
 * The rate of deliveries of a push of many branches to many webhooks, from its response to the last arrival. The peer
 * is a client on the same cores that only sends as many requests of a similar size.
 */
async function compareDeliveries(svc: Svc, path: string, effort: Effort): Promise<Medians> {
  await using receiver = await startReceiver()
  await using client = startWireClient({ onServerCores: true })
  for (let index = 0; index < webhooks; index++) await addWebhook(svc, receiver.url)
  const body = Buffer.alloc(usualBytes, 'x')
  const requests = Array<Request>(branches).fill({ method: 'POST', path: '', body })
  const contestants = {
    async svc(round: number) {
      const refs = Array.from({ length: branches }, (_, index) => `many-${round}-${index}`)
      const body = await pushBody(path, ...refs)
      const arrived = receiver.untilArrived(deliveries)
      const respondedAt = await push(svc, body)
      return (await arrived) - respondedAt
    },
    async peer() {
      const arrived = receiver.untilArrived(deliveries)
      const startedAt = performance.now()
      await client.run(receiver, { connections: webhooks, ms: 0, requests })
      return (await arrived) - startedAt
    },
  }
  const title = `${deliveries} deliveries on ${serverCoreCount} cores`
  const { values, rounds } = await compare(title, contestants, effort)
  return { values: mapServers(values, (ms) => (deliveries / ms) * 1000), rounds }
}

/** Inserts many deliveries of a webhook into the database of a stopped server. */
function fillDeliveries(dataDir: string, webhookId: string): void {
  using db = new DatabaseSync(join(dataDir, 'svc.db'))
  const insert = db.prepare(
    `insert into deliveries
       (id, webhook_id, repository_id, event, url, status, attempts, created_at, completed_at, response_status, duration)
     select ?, id, repository_id, 'push', url, 'success', 1, ?, ?, 204, 5 from webhooks where id = ?`,
  )
  const now = Date.now()
  db.exec('begin')
  for (let index = 0; index < listed; index++) insert.run(newId(now), now, now, webhookId)
  db.exec('commit')
}

function measureList(svc: Svc, webhookId: string, effort: Effort): Promise<Medians> {
  const list = async () => {
    const startedAt = performance.now()
    const page = await svc.call('GET', `/repos/${repository}/webhooks/${webhookId}/deliveries`)
    if (page.length !== pageLength) throw new Error(`A page of deliveries has ${page.length}.`)
    return performance.now() - startedAt
  }
  return compare(`first page of ${listed} deliveries`, { svc: list }, effort)
}

/** Subscribes a receiver to pushes, and returns the webhook's id. */
async function addWebhook(svc: Svc, url: string): Promise<string> {
  const webhook = { url, events: ['push'], secret: 'a secret of some length' }
  return (await svc.call('POST', `/repos/${repository}/webhooks`, webhook)).id
}

/** Pushes with a minimal client, and returns the time of the end of the response. */
async function push({ url, adminToken }: Svc, body: Buffer): Promise<number> {
  const response = await fetch(`${url}/repos/${repository}.git/git-receive-pack`, {
    method: 'POST',
    headers: gitHeaders('git-receive-pack', adminToken, body.length) as Record<string, string>,
    body: new Uint8Array(body),
  })
  const report = await response.text()
  const respondedAt = performance.now()
  if (!report.includes('unpack ok') || /^....ng /m.test(report))
    throw new Error(`A push failed: ${report}`)
  return respondedAt
}

/** Receives requests until it is disposed. */
async function startReceiver() {
  let left = 0
  let resolve = (_at: number) => {}
  const server = createServer((request, response) => {
    const arrivedAt = performance.now()
    if (--left === 0) resolve(arrivedAt)
    request.resume().on('end', () => response.writeHead(200, { 'content-length': 0 }).end())
  })
  server.keepAliveTimeout = 60_000
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  // It listens on TCP, so it has an address of this form.
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/hook`,
    /** Waits for a number of requests, and returns the time of the last one. */
    untilArrived(count: number): Promise<number> {
      const arrived = Promise.withResolvers<number>()
      left = count
      resolve = arrived.resolve
      return arrived.promise
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
    },
  }
}
