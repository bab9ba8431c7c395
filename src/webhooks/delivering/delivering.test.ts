import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Database } from '#database/database.ts'
import type { WebhookRow } from '#database/schema.ts'
import { until } from '../../../test/support/condition.ts'
import { onEachDatabase } from '../../../test/support/databases.ts'
import {
  addRepository,
  addWebhook,
  composePlainly,
  publishPushes,
  startDelivering,
} from '../../../test/support/delivery-site.ts'
import { startReceiver } from '../../../test/support/receiver.ts'
import { pruneDeliveries } from '../management/delivery-retention.ts'
import { leaseMs } from './delivery-queue.ts'

const hour = 3_600_000
const day = 24 * hour

onEachDatabase((fresh, engine) => {
  test('what is published is delivered once, and recorded', async () => {
    await using site = await openSite()
    const { db, receiver, webhookId } = site
    await using loop = startDelivering(db, site)
    await publishPushes(db, site.repositoryId, 20, site.clock.now())
    loop.wake()
    const rows = await untilDone(db, 20)
    assert.equal(receiver.received.length, 20)
    assert.deepEqual(
      new Set(receiver.received.map(({ json }) => json.svc.delivery)),
      new Set(rows.map(({ id }) => id)),
    )
    for (const { status, attempts, responseStatus, fault, dueAt, leaseUntil } of rows) {
      assert.deepEqual(
        { status, attempts, responseStatus, fault, dueAt, leaseUntil },
        {
          status: 'success',
          attempts: 1,
          responseStatus: 204,
          fault: '',
          dueAt: null,
          leaseUntil: 0,
        },
      )
    }
    assert.equal((await webhookOf(db, webhookId)).dueAt, null)
    const bodies = await db.selectFrom('deliveryBodies').selectAll().execute()
    for (const { headers, body } of receiver.received) {
      const kept = bodies.find(({ deliveryId }) => deliveryId === headers['webhook-id'])
      assert.equal(kept?.body, body.toString())
      assert.equal(headers['x-svc-repository'], 'site')
      assert.equal(headers['x-svc-attempt'], '1')
      assert.equal(headers['x-hub-signature-256'], undefined)
    }
  })

  test('a failed delivery is retried by the schedule, with the same id and bytes, until it succeeds', async () => {
    await using site = await openSite()
    const { db, receiver, clock, webhookId } = site
    receiver.answerWith((_received, response) => response.writeHead(500).end('out of order'))
    await using loop = startDelivering(db, { ...site, secrets: ['s'] })
    await publishPushes(db, site.repositoryId, 1, site.clock.now())
    loop.wake()
    const [first] = await untilAttempts(db, 1)
    assert.equal(first?.status, 'pending')
    assert.equal(first?.fault, 'The receiver responded with status 500.')
    const waitMs = (first?.dueAt ?? 0) - clock.now()
    assert.ok(waitMs >= 4500 && waitMs <= 5500, String(waitMs))
    const webhook = await webhookOf(db, webhookId)
    assert.equal(webhook.dueAt, first?.dueAt)
    assert.equal(webhook.failingSince, clock.now())

    clock.advance(5500)
    loop.wake()
    await untilAttempts(db, 2)
    receiver.answerWith((_received, response) => response.writeHead(200).end('fine'))
    clock.advance(330_000)
    loop.wake()
    const [last] = await untilDone(db)
    assert.deepEqual([last?.status, last?.attempts, last?.fault], ['success', 3, ''])
    assert.equal((await webhookOf(db, webhookId)).failingSince, null)
    const bodies = receiver.received.map(({ body }) => body.toString())
    assert.equal(new Set(bodies).size, 1)
    const ids = receiver.received.map(({ headers }) => headers['x-github-delivery'])
    assert.deepEqual(ids, [first?.id, first?.id, first?.id])

    const attempts = await attemptsOf(db)
    assert.deepEqual(
      attempts.map(({ attempt, responseStatus, responseBody }) => [
        attempt,
        responseStatus,
        responseBody,
      ]),
      [
        [1, 500, 'out of order'],
        [2, 500, 'out of order'],
        [3, 200, 'fine'],
      ],
    )
    for (const { requestHeaders } of attempts) {
      const headers = JSON.parse(requestHeaders)
      assert.equal(headers['webhook-signature'], '[hidden]')
      assert.equal(headers['x-hub-signature-256'], '[hidden]')
      assert.equal(headers['webhook-id'], first?.id)
    }
  })

  test('a delivery fails after its last attempt', async () => {
    await using site = await openSite()
    const { db, receiver } = site
    receiver.answerWith((_received, response) => response.writeHead(302, { location: '/x' }).end())
    await using loop = startDelivering(db, { ...site, schedule: [0, 0] })
    await publishPushes(db, site.repositoryId, 1, site.clock.now())
    loop.wake()
    const [row] = await untilDone(db)
    assert.deepEqual([row?.status, row?.attempts], ['failed', 2])
    assert.equal(row?.fault, 'The receiver responded with status 302; redirects are not followed.')
    assert.equal((await webhookOf(db, site.webhookId)).dueAt, null)
    assert.equal(receiver.received.length, 2)
  })

  test('410 ends the retries, and Retry-After delays them', async () => {
    await using site = await openSite()
    const { db, receiver, clock } = site
    receiver.answerWith(({ headers }, response) => {
      if (headers['x-svc-sequence'] === '1') response.writeHead(410).end()
      else response.writeHead(503, { 'retry-after': '7200' }).end()
    })
    await using loop = startDelivering(db, site)
    await publishPushes(db, site.repositoryId, 2, site.clock.now())
    loop.wake()
    const [gone, busy] = await untilAttempts(db, 1, 2)
    assert.deepEqual([gone?.status, gone?.dueAt], ['failed', null])
    assert.deepEqual([busy?.status, busy?.dueAt], ['pending', clock.now() + 2 * hour])
  })

  test('an attempt requested during another one is made right after it', async () => {
    await using site = await openSite()
    const { db, receiver, webhookId } = site
    const answers: (() => void)[] = []
    receiver.answerWith((_received, response) => answers.push(() => response.writeHead(204).end()))
    await using loop = startDelivering(db, site)
    await publishPushes(db, site.repositoryId, 1, site.clock.now())
    loop.wake()
    await receiver.untilReceived(1)
    await ask(db, webhookId, site.clock.now())
    loop.wake()
    answers.shift()?.()
    await receiver.untilReceived(2)
    answers.shift()?.()
    const [row] = await untilDone(db)
    assert.deepEqual([row?.status, row?.attempts, row?.isWanted], ['success', 2, 0])
    assert.deepEqual(
      (await attemptsOf(db)).map(({ isManual }) => isManual),
      [0, 1],
    )
  })

  test('a webhook that has failed for five days is disabled, and its pending deliveries fail', async () => {
    await using site = await openSite({ failingSince: 1000 })
    const { db, receiver, clock, webhookId } = site
    clock.advance(5 * day)
    receiver.answerWith((_received, response) => response.writeHead(500).end())
    await using loop = startDelivering(db, { ...site, schedule: [0, 60] })
    await publishPushes(db, site.repositoryId, 2, site.clock.now())
    loop.wake()
    await until('each was attempted once', async () => (await attemptsOf(db)).length === 2)
    // What comes after a quiet time gets its whole schedule first.
    assert.equal((await webhookOf(db, webhookId)).isEnabled, 1)
    clock.advance(50_000)
    await publishPushes(db, site.repositoryId, 1, site.clock.now())
    loop.wake()
    await until('so was the last one', async () => (await attemptsOf(db)).length === 3)
    clock.advance(20_000)
    loop.wake()
    const rows = await untilDone(db, 3)
    const attempts = rows.map(({ attempts, status }) => `${status} after ${attempts}`)
    assert.equal(attempts[2], 'failed after 1')
    assert.ok(attempts.includes('failed after 2'), attempts.join())
    const webhook = await webhookOf(db, webhookId)
    assert.deepEqual([webhook.isEnabled, webhook.disabledAt], [0, clock.now()])
    assert.match(webhook.disabledReason, /five days/)
    const published = await db
      .selectFrom('events')
      .select('data')
      .where('kind', '=', 'webhook.disabled')
      .execute()
    assert.equal(published.length, 1)
    assert.equal(JSON.parse(published[0]?.data ?? '').webhookId, webhookId)

    const before = receiver.received.length
    receiver.answerWith((_received, response) => response.writeHead(204).end())
    await ask(db, webhookId, clock.now())
    loop.wake()
    await receiver.untilReceived(before + 3)
    for (const { status } of await untilDone(db, 3)) assert.equal(status, 'success')
    assert.equal((await webhookOf(db, webhookId)).isEnabled, 0)
  })

  test('an error of the server is retried, and does not affect the health of the webhook', async () => {
    await using site = await openSite()
    const { db, clock, receiver } = site
    let isBroken = true
    const compose = async (delivery: Parameters<typeof composePlainly>[0]) => {
      if (isBroken) throw new Error('disk I/O error in /srv/secret')
      return composePlainly(delivery)
    }
    await using loop = startDelivering(db, { ...site, compose })
    await publishPushes(db, site.repositoryId, 1, site.clock.now())
    loop.wake()
    const [row] = await untilAttempts(db, 1)
    assert.equal(row?.status, 'pending')
    assert.equal(row?.fault, 'The server could not prepare the delivery.')
    assert.equal((await webhookOf(db, site.webhookId)).failingSince, null)
    isBroken = false
    clock.advance(5500)
    loop.wake()
    const [done] = await untilDone(db)
    assert.deepEqual([done?.status, done?.attempts], ['success', 2])
    assert.equal(receiver.received.length, 1)
  })

  test('a delivery whose event no longer exists fails without a request', async () => {
    await using site = await openSite()
    const { db, receiver } = site
    await using loop = startDelivering(db, { ...site, compose: async () => undefined })
    await publishPushes(db, site.repositoryId, 1, site.clock.now())
    loop.wake()
    const [row] = await untilDone(db)
    assert.deepEqual([row?.status, row?.attempts], ['failed', 0])
    assert.equal(receiver.received.length, 0)
  })

  test('two servers of one database never send the same delivery', async () => {
    await using site = await openSite()
    const { db, receiver } = site
    const other = engine === 'postgres' ? await site.database.open() : db
    await using here = startDelivering(db, { ...site, leaseOwner: 'here' })
    await using there = startDelivering(other, { ...site, leaseOwner: 'there' })
    for (let round = 0; round < 20; round++) {
      await publishPushes(db, site.repositoryId, 10, site.clock.now())
      for (const loop of [here, there]) loop.wake()
    }
    const rows = await untilDone(db, 200)
    assert.ok(rows.every(({ attempts }) => attempts === 1))
    assert.equal(receiver.received.length, 200)
  })

  test('leases of a killed server are released at its next start, and those of others are not', async () => {
    await using site = await openSite()
    const { db, receiver, clock, webhookId } = site
    await publishPushes(db, site.repositoryId, 2, site.clock.now())
    const leaseUntil = clock.now() + leaseMs
    const [own, others] = await untilAttempts(db, 0, 2)
    await hold(db, own?.id, { leaseHolder: 'here', leaseUntil })
    await hold(db, others?.id, { leaseHolder: 'there', leaseUntil })
    await db.updateTable('webhooks').set({ dueAt: leaseUntil }).execute()
    await using loop = startDelivering(db, { ...site, leaseOwner: 'here' })
    await receiver.untilReceived(1)
    await until('it is recorded', async () => (await deliveriesOf(db))[0]?.status === 'success')
    assert.equal(receiver.received[0]?.json.svc.delivery, own?.id)
    assert.equal((await webhookOf(db, webhookId)).dueAt, leaseUntil)
    clock.advance(leaseMs)
    loop.wake()
    await untilDone(db, 2)
    assert.equal(receiver.received.length, 2)
  })

  test('an attempt that a stop aborts is released, and does not count', async () => {
    await using site = await openSite()
    const { db, receiver } = site
    receiver.answerWith(() => {})
    const loop = startDelivering(db, { ...site, stopMs: 1 })
    await publishPushes(db, site.repositoryId, 1, site.clock.now())
    loop.wake()
    await receiver.untilReceived(1)
    await loop[Symbol.asyncDispose]()
    const [row] = await deliveriesOf(db)
    assert.deepEqual([row?.status, row?.attempts, row?.leaseUntil], ['pending', 0, 0])
    assert.deepEqual(await attemptsOf(db), [])
    receiver.answerWith((_received, response) => response.writeHead(204).end())
    await using _again = startDelivering(db, site)
    await untilDone(db)
    assert.deepEqual(receiver.received[0]?.body, receiver.received[1]?.body)
  })

  test('a stop waits for an attempt that ends soon', async () => {
    await using site = await openSite()
    const { db, receiver } = site
    const { promise, resolve } = Promise.withResolvers<() => void>()
    receiver.answerWith((_received, response) => resolve(() => response.writeHead(204).end()))
    const loop = startDelivering(db, { ...site, stopMs: 10_000 })
    await publishPushes(db, site.repositoryId, 2, site.clock.now())
    loop.wake()
    const answer = await promise
    const stopped = loop[Symbol.asyncDispose]()
    answer()
    await stopped
    assert.deepEqual(
      (await deliveriesOf(db)).map(({ status }) => status),
      ['success', 'pending'],
    )
  })

  test('nothing is recorded for a delivery that is deleted meanwhile', async () => {
    await using site = await openSite()
    const { db, receiver } = site
    receiver.answerWith(({ headers }, response) => {
      const answer = () => response.writeHead(204).end()
      if (headers['x-svc-sequence'] !== '2') return void answer()
      const id = String(headers['webhook-id'])
      db.deleteFrom('deliveries').where('id', '=', id).execute().then(answer, assert.ifError)
    })
    await using loop = startDelivering(db, site)
    await publishPushes(db, site.repositoryId, 3, site.clock.now())
    loop.wake()
    const rows = await untilDone(db, 2)
    assert.deepEqual(
      rows.map(({ seq, status }) => [seq, status]),
      [
        [1, 'success'],
        [3, 'success'],
      ],
    )
  })

  test('old deliveries are pruned, except pending ones', async () => {
    await using site = await openSite()
    const { db, clock, receiver } = site
    receiver.answerWith(({ headers }, response) =>
      response.writeHead(headers['x-svc-sequence'] === '2' ? 500 : 204).end(),
    )
    await publishPushes(db, site.repositoryId, 3, site.clock.now())
    {
      await using _loop = startDelivering(db, site)
      const rows = await untilAttempts(db, 1, 3)
      assert.deepEqual(
        rows.map(({ status, fault }) => [status, fault]),
        [
          ['success', ''],
          ['pending', 'The receiver responded with status 500.'],
          ['success', ''],
        ],
      )
    }
    // Ids of the tests before are of days to come.
    clock.advance(100 * day)
    const { signal } = new AbortController()
    await pruneDeliveries({ db, clock, keptDays: 90, signal })
    assert.deepEqual(
      (await deliveriesOf(db)).map(({ seq }) => seq),
      [2],
    )
    assert.deepEqual(new Set((await attemptsOf(db)).map(({ attempt }) => attempt)), new Set([1]))
  })

  /** A repository with a webhook, and what it is sent to; the clock stands still. */
  async function openSite(more: Partial<WebhookRow> = {}) {
    await using opening = new AsyncDisposableStack()
    const database = opening.use(await fresh())
    const db = await database.open()
    const receiver = opening.use(await startReceiver())
    const repositoryId = await addRepository(db, 'site')
    const webhookId = await addWebhook(db, repositoryId, receiver.url, more)
    const resources = opening.move()
    return {
      database,
      db,
      receiver,
      repositoryId,
      webhookId,
      clock: createStoppedClock(),
      [Symbol.asyncDispose]: () => resources.disposeAsync(),
    }
  }
})

function createStoppedClock() {
  let now = Date.now()
  return {
    now: () => now,
    advance(ms: number): void {
      now += ms
    },
  }
}

function untilDone(db: Database, count = 1) {
  return until(`${count} deliveries are there, and none is pending`, async () => {
    const rows = await deliveriesOf(db)
    return rows.length === count && rows.every(({ status }) => status !== 'pending') && rows
  })
}

function untilAttempts(db: Database, attempts: number, count = 1) {
  return until(`${count} deliveries have had ${attempts} attempts`, async () => {
    const rows = await deliveriesOf(db)
    return rows.length === count && rows.every((row) => row.attempts === attempts) && rows
  })
}

function deliveriesOf(db: Database) {
  return db.selectFrom('deliveries').selectAll().orderBy('id').execute()
}

function attemptsOf(db: Database) {
  return db.selectFrom('deliveryAttempts').selectAll().orderBy('attempt').execute()
}

function webhookOf(db: Database, id: string) {
  return db.selectFrom('webhooks').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
}

/** Asks for all deliveries of a webhook by hand, as the API does. */
async function ask(db: Database, webhookId: string, now: number): Promise<void> {
  const wanted = { status: 'pending', isWanted: 1, dueAt: now, completedAt: null } as const
  await db.updateTable('deliveries').set(wanted).where('webhookId', '=', webhookId).execute()
  await db.updateTable('webhooks').set({ dueAt: now }).where('id', '=', webhookId).execute()
}

async function hold(
  db: Database,
  id: string | undefined,
  lease: { leaseHolder: string; leaseUntil: number },
): Promise<void> {
  await db
    .updateTable('deliveries')
    .set(lease)
    .where('id', '=', id ?? '')
    .execute()
}
