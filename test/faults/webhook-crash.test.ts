// Tags: exhaustive
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { faultSteps } from '#base/fault-points.ts'
import { createCommitPool } from '../support/commit-pool.ts'
import { until } from '../support/condition.ts'
import { git } from '../support/git.ts'
import { openPushRecords } from '../support/push-records.ts'
import { createRandom, type Random } from '../support/random.ts'
import { type Received, startReceiver } from '../support/receiver.ts'
import { sampleOf, toRounds } from '../support/rounds.ts'
import type { Service } from '../support/service.ts'
import { startWebhookSite } from '../support/webhook-site.ts'

const seed = Number(process.env.SVC_CRASH_SEED ?? Date.now() % 1_000_000)
const rounds = toRounds(3)
const pushers = 3
const pushesPerRound = 60

const steps = faultSteps.filter((step) => step.startsWith('delivery.'))

/** How often a receiver is sent what a server died of after a step. */
const sent: Record<string, number> = {
  'delivery.claimed': 1,
  'delivery.composed': 1,
  'delivery.answered': 2,
  'delivery.recorded': 1,
}

describe('a server that is killed', { concurrency: 2 }, () => {
  for (const step of sampleOf(steps, 3)) {
    test(`at ${step} delivers after its restart`, async () => {
      await using receiver = await startReceiver()
      await using commits = await createCommitPool(1)
      await using site = await startWebhookSite()
      const webhookId = await site.subscribe(receiver.url)
      await site.service().end('SIGTERM')
      const dying = await site.startAgain({ SVC_FAULT_POINT: step })
      const target = `${commits.next()}:refs/heads/main`
      // The delivery may begin, and end the server, before the client has its response.
      await git(commits.path, ['push', dying.admin.remote('site'), target]).catch(() => {})
      await until('the server has died', dying.hasEnded)
      await site.startAgain()
      const [delivery] = await site.untilDelivered(webhookId)
      assert.deepEqual([delivery.status, delivery.attempts], ['success', 1])
      assert.equal(receiver.received.length, sent[step], step)
      assertSame(receiver.received)
    })
  }
})

test(`acknowledged pushes are delivered despite kills of any process (SVC_CRASH_SEED=${seed})`, async (t) => {
  const random = createRandom(seed)
  await using commits = await createCommitPool(rounds * pushesPerRound)
  await using good = await startReceiver()
  await using flaky = await startReceiver((_received, response) => {
    response.writeHead(random.chance(0.5) ? 503 : 200).end()
  })
  // More attempts than a coin falls badly.
  const schedule = `0,${Array(24).fill('0').join()}`
  await using site = await startWebhookSite({ SVC_WEBHOOK_RETRY_SCHEDULE: schedule })
  const webhooks = [
    { id: await site.subscribe(good.url), receiver: good },
    { id: await site.subscribe(flaky.url), receiver: flaky },
  ]
  const acknowledged = new Map<string, string>()
  let kills = 0
  let number = 0

  async function push(service: Service): Promise<void> {
    for (let n = 0; n < pushesPerRound / pushers; n++) {
      const [ref, commit] = [`refs/heads/b${number++}`, commits.next()]
      try {
        await git(commits.path, ['push', service.admin.remote('site'), `${commit}:${ref}`])
      } catch {
        // Nothing else makes a push fail.
        await until('the server of a push that failed has died', service.hasEnded)
        return
      }
      acknowledged.set(ref, commit)
    }
  }

  for (let round = 0; round < rounds; round++) {
    const step = random.chance(0.4)
      ? random.pick(['claimed', 'composed', 'answered', 'recorded'])
      : ''
    await site.service().end('SIGKILL')
    const service = await site.startAgain(
      step === '' ? {} : { SVC_FAULT_POINT: `delivery.${step}` },
    )
    const pushing = Array.from({ length: pushers }, () => push(service))
    await Promise.all([killAt(service, good.received, random), ...pushing])
    kills++
    t.diagnostic(`killed ${step} after ${acknowledged.size} pushes`)
  }
  await site.startAgain()
  using records = openPushRecords(site.dataDir)
  await until('each push is finished', () => records.unfinished().length === 0)
  for (const { id, receiver } of webhooks) {
    const deliveries = await site.untilDelivered(id)
    const byId = Map.groupBy(receiver.received, ({ headers }) => String(headers['webhook-id']))
    const got = new Map(receiver.received.map(({ json }) => [json.ref, json.after]))
    for (const [ref, commit] of acknowledged) assert.equal(got.get(ref), commit, ref)
    assert.deepEqual(
      deliveries.map(({ seq }) => seq),
      records.eventsAfter(0).pushes.map(({ seq }) => seq),
    )
    let last = 0
    for (const { id: deliveryId, seq, previousSeq, status, attempts } of deliveries) {
      assert.equal(status, 'success')
      assert.equal(previousSeq, last)
      last = seq
      const requests = byId.get(deliveryId) ?? []
      assertSame(requests)
      // Of each attempt that was recorded there was a request; each kill may have lost the record of one.
      assert.ok(attempts >= 1 && attempts <= requests.length, `${attempts} of ${requests.length}`)
      assert.ok(requests.length <= attempts + kills, `${requests.length} of ${attempts}`)
    }
  }
})

/** Kills a server after some deliveries, if it has not died by itself. */
async function killAt(service: Service, received: Received[], random: Random): Promise<void> {
  const enough = received.length + random.below(12)
  const delayMs = random.below(30)
  await until('enough has been delivered', () => received.length >= enough || service.hasEnded())
  await sleep(delayMs)
  await service.end('SIGKILL')
}

/** Fails unless all requests are of one delivery, and have the same bytes. */
function assertSame(requests: Received[]): void {
  for (const { headers, body } of requests) {
    assert.equal(headers['webhook-id'], requests[0]?.headers['webhook-id'])
    assert.deepEqual(body, requests[0]?.body)
  }
}
