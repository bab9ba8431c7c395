import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { newId } from '../src/base/ids.ts'
import { gitHeaders, pushBody } from '../test/support/raw-git.ts'
import { serverCoreCount, serverCores } from './cores.ts'
import { interleave, median } from './measure.ts'
import { contest, type Effort, type Result } from './operations.ts'
import { say } from './output.ts'
import { run } from './program.ts'
import type { startSubject } from './subject.ts'
import type { Workspace } from './workspace.ts'

type Subject = Pick<Awaited<ReturnType<typeof startSubject>>, 'call' | 'adminToken' | 'url' | 'pid'>

/** A repository with webhooks, and a folder with a commit to push into it. */
type Project = { name: string; path: string }

const webhooks = 20
const branches = 250
const usualBytes = 3000
const atOnce = 16
const listed = 100_000
const pauseMs = 20

/** Measures the time from the last byte of a push's response to the first byte of its delivery, in ms. */
export async function measureToReceiver(
  subject: Subject,
  { name, path }: Project,
  { rounds, seconds }: Effort,
) {
  say('Measuring: response of a push to its delivery')
  await using receiver = await startReceiver()
  const id = await addWebhook(subject, name, receiver.url)
  const body = (round: number) => pushBody(path, `measured-${round}`)
  const toReceiver = async (round: number) => {
    const answeredAt = await push(subject, name, await body(round))
    const [arrivedAt = 0] = await receiver.untilArrived(1)
    return arrivedAt - answeredAt
  }
  const measured = await interleave({ contestants: { svc: toReceiver }, rounds, seconds })
  await subject.call('DELETE', `/repos/${name}/webhooks/${id}`)
  return { ms: measured.medians.svc, rounds: measured.rounds }
}

/**
 * Measures the deliveries of a push of many branches to many webhooks: from its response to the last arrival, on
 * two cores. The peer only sends as many requests of a similar size.
 */
export async function measureDeliveries(
  { env, signal }: Workspace,
  subject: Subject,
  { name, path }: Project,
  effort: Effort,
): Promise<{ result: Result; count: number }> {
  const count = webhooks * branches
  await using receiver = await startReceiver()
  for (let index = 0; index < webhooks; index++) await addWebhook(subject, name, receiver.url)
  const bare = [
    '-c',
    serverCores,
    process.execPath,
    fileURLToPath(new URL('bare-client.ts', import.meta.url)),
  ]
  const contestants = {
    async svc(round: number) {
      const refs = Array.from({ length: branches }, (_, index) => `many-${round}-${index}`)
      const answeredAt = await push(subject, name, await pushBody(path, ...refs))
      return Math.max(...(await receiver.untilArrived(count))) - answeredAt
    },
    async peer() {
      const startedAt = Date.now()
      const wanted = [receiver.url, `${count}`, `${usualBytes}`, `${atOnce}`]
      await run('taskset', [...bare, ...wanted], { env, signal })
      return Math.max(...(await receiver.untilArrived(count))) - startedAt
    },
  }
  return {
    result: await contest(`${count} deliveries on ${serverCoreCount} cores`, contestants, effort),
    count,
  }
}

/** Puts many deliveries of a webhook into the database of a server that does not run. */
export function fillDeliveries(dataDir: string, webhookId: string): void {
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

/** The time of the first page of a list of 100,000 deliveries, in ms. */
export async function measureDeliveryList(
  subject: Subject,
  { name, webhookId }: { name: string; webhookId: string },
  { rounds }: Effort,
) {
  say(`Measuring: first page of ${listed} deliveries`)
  const times: number[] = []
  for (let round = 0; round <= rounds; round++) {
    const startedAt = performance.now()
    const page = await subject.call('GET', `/repos/${name}/webhooks/${webhookId}/deliveries`)
    if (page.length !== 100) throw new Error(`A page of deliveries has ${page.length}.`)
    if (round > 0) times.push(performance.now() - startedAt)
  }
  return { ms: median(times), rounds }
}

/** Subscribes a receiver to the pushes of a repository, and returns the webhook's id. */
export async function addWebhook(subject: Subject, name: string, url: string): Promise<string> {
  const wanted = { url, events: ['push'], secret: 'a secret of some length' }
  return (await subject.call('POST', `/repos/${name}/webhooks`, wanted)).id
}

/** Pushes with a minimal client, and returns when it had the whole response. */
async function push({ url, adminToken }: Subject, name: string, body: Buffer): Promise<number> {
  const answer = await fetch(`${url}/repos/${name}.git/git-receive-pack`, {
    method: 'POST',
    headers: gitHeaders('git-receive-pack', adminToken, body.length) as Record<string, string>,
    body: new Uint8Array(body),
  })
  const report = await answer.text()
  const answeredAt = Date.now()
  if (!report.includes('unpack ok') || /^....ng /m.test(report))
    throw new Error(`A push failed: ${report}`)
  return answeredAt
}

/** Starts a process that receives requests until it is disposed. */
async function startReceiver() {
  const child = fork(fileURLToPath(new URL('receiver.ts', import.meta.url)), { detached: true })
  const ended = once(child, 'exit')
  const [url] = await once(child, 'message')
  return {
    url: String(url),
    /** Waits for a number of requests, and returns their arrival times in ms since the epoch. */
    async untilArrived(count: number): Promise<number[]> {
      const arrivals: number[] = []
      while (arrivals.length < count) {
        child.send('take')
        const [some] = await once(child, 'message')
        arrivals.push(...some)
        if (some.length === 0) await pause(pauseMs)
      }
      return arrivals
    },
    async [Symbol.asyncDispose]() {
      child.disconnect()
      await ended
    },
  }
}
