import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { CompiledQuery, type RootOperationNode } from 'kysely'
import { newId } from '#base/ids.ts'
import { createLog } from '#base/log.ts'
import { createOutbound } from '#base/outbound/outbound.ts'
import { Sensitive } from '#base/sensitive.ts'
import type { Database } from '#database/database.ts'
import type { Actor, Event } from '#events/events.ts'
import { deleteRepository, insertRepository } from '#repositories/repository-store.ts'
import type { NamedScope } from '#repositories/scopes.ts'
import { findUnknownKeys } from '#secrets/key-check.ts'
import { createRotation } from '#secrets/rotation.ts'
import { createVault } from '#secrets/vault/vault.ts'
import { onEachDatabase } from '../../test/support/databases.ts'
import { publish } from '../../test/support/publish.ts'
import { createDeliveryQueue } from './delivering/delivery-queue.ts'
import { listDeliveries } from './delivery-store.ts'
import { createDisableWebhook } from './disabling.ts'
import { createDeliveries } from './management/deliveries.ts'
import { createPurge } from './management/purge.ts'
import { createWebhookService, type ScopedWebhook } from './management/webhook-service.ts'
import { createSigningSecrets } from './signing-secrets.ts'

const [old, next] = [randomBytes(32), randomBytes(32)]
const actor = { id: 'token', username: 'ada' }
const wholeList = { after: '', limit: 1000 }
const firstPage = { before: '', limit: 1000 }
const url = 'http://hooks.example/in'
const start = 1_000_000_000
const hourMs = 3_600_000
const schedule = [0, 5, 10] as const
const log = createLog({ level: 'silent', output: process.stderr })
const vaultOf = (...keys: Buffer[]) => createVault(new Sensitive(keys))

/** Webhooks as a server with these keys has them, at a time that only the test moves. */
function serve(db: Database, keys = [old], clock = { time: start }) {
  const vault = vaultOf(...keys)
  const woken = { times: 0 }
  const rest = { db, publish, clock: { now: () => clock.time }, vault: async () => vault }
  const outbound = createOutbound({
    allow: { classes: ['external'], ranges: [], names: [] },
    lookup: async () => [{ address: '8.8.8.8' }],
  })
  const signing = createSigningSecrets(rest)
  const wake = () => void woken.times++
  const cutOff = async () => {}
  const { create, change, ...hooks } = createWebhookService({
    ...rest,
    outbound,
    signing,
    wake,
    cutOff,
  })
  const admitAgain = async () => {}
  return {
    vault,
    clock,
    woken,
    signing,
    ...createRotation({
      ...rest,
      faultPoint: () => {},
      disableWebhook: createDisableWebhook(publish),
    }),
    hooks: {
      ...hooks,
      create: (by: Actor, scope: NamedScope, wanted: Parameters<typeof create>[2]) =>
        create(by, scope, wanted, admitAgain),
      change: (by: Actor, webhook: ScopedWebhook, changes: Parameters<typeof change>[2]) =>
        change(by, webhook, changes, admitAgain),
      ...createPurge({ ...rest, signing, cutOff }),
    },
    sent: createDeliveries({ ...rest, schedule, wake }),
  }
}

async function addRepository(db: Database, name = newId()): Promise<NamedScope> {
  const [id, createdAt] = [newId(), 1]
  const owner = { ownerTokenId: 'token', ownerUsername: 'ada' }
  const nameKey = name.toLowerCase()
  const row = { id, name, nameKey, ...owner, createdAt, state: 'ready' } as const
  await insertRepository(db, row)
  return { kind: 'repository', id, name }
}

/** The number of refs per push. */
function happen(db: Database, { id }: NamedScope, now: number, count = 1): Promise<void> {
  const ref = { ref: 'refs/heads/main', before: '', after: '', forced: false }
  const data = { ...ref, pushId: newId(), via: 'http', repositoryName: 'site' }
  const event: Event = { kind: 'push', actor, repositoryId: id, data }
  return db.transaction().execute((tx) =>
    publish(
      tx,
      now,
      Array.from({ length: count }, () => event),
    ),
  )
}

/** Ends pending deliveries, as the sender does. */
async function settle(db: Database, status: 'success' | 'failed', seqs?: number[]): Promise<void> {
  const end = { status, attempts: 3, dueAt: null, isWanted: 0, completedAt: 1 }
  const query = db.updateTable('deliveries').set(end).where('status', '=', 'pending')
  await (seqs ? query.where('seq', 'in', seqs) : query).execute()
}

const kindsIn = async (db: Database) =>
  (await db.selectFrom('events').select('kind').orderBy('seq').execute()).map(({ kind }) => kind)

const outcome = {
  ...{ startedAt: start, duration: 1, responseStatus: 500, responseBody: '', retryAfterMs: 0 },
  ...{
    url,
    requestHeaders: {},
    responseHeaders: {},
    fault: 'The receiver responded with status 500.',
  },
  isOwnFault: false,
}

const quiet = { report: () => {}, signal: new AbortController().signal }

onEachDatabase((fresh, engine) => {
  async function site() {
    const database = await fresh()
    const db = await database.open()
    const repository = await addRepository(db, 'site')
    const server = serve(db)
    const add = async (secret?: string, events = ['push']) => {
      const sensitive = secret === undefined ? undefined : new Sensitive(secret)
      const made = await server.hooks.create(actor, repository, { url, events, secret: sensitive })
      return server.hooks.find(repository, made.id)
    }
    const list = async (webhook: { id: string }) =>
      (await listDeliveries(db, webhook.id, firstPage)).reverse()
    const close = () => database[Symbol.asyncDispose]()
    return {
      ...server,
      open: database.open,
      db,
      repository,
      add,
      list,
      [Symbol.asyncDispose]: close,
    }
  }

  test('concurrent creations do not exceed the limit of a repository', async () => {
    await using one = await site()
    const servers = [one.hooks, serve(await one.open()).hooks]
    const make = async (_: unknown, at: number) =>
      servers[at % 2]?.create(actor, one.repository, { url, events: ['push'] })
    // No more at a time than have connections: others would wait for these, within a time limit.
    const makeAll = (length: number) => Promise.allSettled(Array.from({ length }, make))
    const outcomes = [...(await makeAll(8)), ...(await makeAll(17))]
    const codes = outcomes.flatMap((outcome) =>
      outcome.status === 'rejected' ? [outcome.reason.code] : [],
    )
    assert.deepEqual(codes, Array(5).fill('too_many_webhooks'))
    const [first] = await one.hooks.list(one.repository, wholeList)
    assert.ok(first)
    assert.equal((await one.hooks.list(one.repository, wholeList)).length, 20)
    await one.hooks.remove(actor, await one.hooks.find(one.repository, first.id))
    await one.hooks.create(actor, one.repository, { url, events: ['push'] })
    await deleteRepository(one.db, one.repository.id)
    const gone = one.hooks.create(actor, one.repository, { url, events: ['push'] })
    await assert.rejects(gone, { code: 'repository_not_found' })
  })

  test('during a replacement deliveries are signed with both secrets, the new one first, and never with three', async () => {
    await using one = await site()
    const webhook = await one.add('first')
    const opened = async () => (await one.signing.open(webhook)).map((secret) => secret.reveal())
    const change = (change: object) => one.hooks.change(actor, webhook, change)
    assert.deepEqual(await opened(), ['first'])
    const { secretExpiresAt } = await change({ secret: new Sensitive('second') })
    assert.equal(secretExpiresAt, start + 24 * hourMs)
    assert.deepEqual(await opened(), ['second', 'first'])
    await change({ secret: new Sensitive('third'), keepPreviousSecretSeconds: 60 })
    assert.deepEqual(await opened(), ['third', 'second'])
    one.clock.time += 60_000
    assert.deepEqual(await opened(), ['third'])
    const [shown] = await one.hooks.list(one.repository, wholeList)
    assert.deepEqual([shown?.hasSecret, shown?.secretExpiresAt], [true, null])
    assert.equal((await one.db.selectFrom('webhookSecrets').select('id').execute()).length, 2)
    await one.hooks.purge()
    assert.equal((await one.db.selectFrom('webhookSecrets').select('id').execute()).length, 1)
    await change({ secret: new Sensitive('fourth'), keepPreviousSecretSeconds: 0 })
    assert.deepEqual(await opened(), ['fourth'])
    assert.equal((await change({ secret: null })).hasSecret, false)
    assert.deepEqual(await opened(), [])
  })

  test('a delivery whose secret cannot be opened is not sent unsigned', async () => {
    await using one = await site()
    const [webhook, other] = [await one.add('hush'), await one.add('other')]
    await assert.rejects(serve(one.db, []).signing.open(webhook), {
      code: 'encryption_key_missing',
    })
    await assert.rejects(serve(one.db, [next]).signing.open(webhook), { code: 'secret_unreadable' })
    await one.db
      .updateTable('webhookSecrets')
      .set({ webhookId: webhook.id })
      .where('webhookId', '=', other.id)
      .execute()
    await assert.rejects(one.signing.open(webhook), {
      code: 'secret_unreadable',
      message:
        /^The signing secret of the webhook cannot be opened: the stored value .*Set it again\.$/,
    })
    const keyless = serve(one.db, []).hooks
    const secret = new Sensitive('x')
    await assert.rejects(keyless.create(actor, one.repository, { url, events: ['push'], secret }), {
      code: 'encryption_key_missing',
    })
    await keyless.create(actor, one.repository, { url, events: ['push'] })
  })

  test('signing secrets are rotated with all others, and a missing key is detected', async () => {
    await using one = await site()
    const webhooks = []
    for (let at = 0; at < 20; at++) webhooks.push(await one.add(`hush ${at}`))
    for (const webhook of webhooks)
      await one.hooks.change(actor, webhook, { secret: new Sensitive('new') })
    assert.deepEqual(await findUnknownKeys(one.db, vaultOf(next)), [
      { keyId: vaultOf(old).keyIds[0] ?? '', count: 40 },
    ])
    assert.deepEqual(await findUnknownKeys(one.db, vaultOf(next), ['secrets']), [])
    const rotated = await serve(one.db, [next, old]).rotate(quiet)
    assert.deepEqual([rotated.resealed, rotated.unreadable], [40, 0])
    assert.deepEqual(await findUnknownKeys(one.db, vaultOf(next)), [])
    for (const [at, webhook] of webhooks.entries()) {
      const secrets = await serve(one.db, [next]).signing.open(webhook)
      assert.deepEqual(
        secrets.map((secret) => secret.reveal()),
        ['new', `hush ${at}`],
      )
    }
  })

  test('a webhook whose secret is deleted is disabled, so that nothing is sent unsigned', async () => {
    await using one = await site()
    const [lost, rotated, plain] = [await one.add('lost'), await one.add('former'), await one.add()]
    await happen(one.db, one.repository, start)
    const there = serve(one.db, [next])
    const change = { secret: new Sensitive('kept') }
    await there.hooks.change(actor, rotated, change)
    const found = await there.rotate(quiet)
    assert.deepEqual(
      found.named.map(({ repoName, name }) => [repoName, name]),
      [lost, rotated].map(({ id }) => ['site', `webhook ${id}`]),
    )
    assert.equal((await there.rotate({ ...quiet, discardsAs: actor })).discarded, 2)
    const shown = await there.hooks.list(one.repository, wholeList)
    assert.deepEqual(
      shown.map(({ health, hasSecret, pending }) => [health, hasSecret, pending]),
      [
        ['disabled', false, 0],
        ['healthy', true, 1],
        ['healthy', false, 1],
      ],
    )
    assert.match(shown[0]?.disabledReason ?? '', /secret could not be opened .*Set a new one/)
    const [delivery] = await one.list(lost)
    assert.deepEqual([delivery?.status, delivery?.dueAt], ['failed', null])
    assert.match(delivery?.fault ?? '', /was disabled before/)
    const events = (await kindsIn(one.db)).slice(-3)
    assert.deepEqual(events, ['webhook.updated', 'webhook.disabled', 'webhook.updated'])
    assert.deepEqual(
      (await there.signing.open(rotated)).map((secret) => secret.reveal()),
      ['kept'],
    )
    assert.deepEqual(await there.signing.open(plain), [])
  })

  test('a retried delivery is due at once, to the current URL, and the loop is woken', async () => {
    await using one = await site()
    const webhook = await one.add()
    await happen(one.db, one.repository, start, 2)
    await settle(one.db, 'success')
    await one.db.updateTable('webhooks').set({ dueAt: null }).execute()
    one.clock.time += 10
    await one.hooks.change(actor, webhook, { url: 'http://other.example/' })
    const [first, second] = await one.list(webhook)
    assert.ok(first && second)
    const retried = await one.sent.retry(actor, webhook, first.id)
    const { status, isWanted, dueAt, completedAt, attempts } = retried
    assert.deepEqual([status, isWanted, dueAt, completedAt], ['pending', 1, start + 10, null])
    assert.deepEqual([attempts, retried.url], [3, 'http://other.example/'])
    assert.deepEqual((await one.list(webhook))[1], second)
    assert.equal((await one.hooks.find(one.repository, webhook.id)).dueAt, start + 10)
    assert.equal(one.woken.times, 1)
    await settle(one.db, 'success')
    await one.hooks.remove(actor, webhook)
    await assert.rejects(one.sent.retry(actor, webhook, first.id), { code: 'webhook_not_found' })
    await assert.rejects(one.hooks.ping(actor, webhook), { code: 'webhook_not_found' })
    await assert.rejects(one.sent.replay(actor, webhook, { since: 0 }), {
      code: 'webhook_not_found',
    })
    assert.equal((await one.list(webhook)).filter((row) => row.status === 'pending').length, 0)
  })

  test('a disabled webhook gets nothing but pings, and its pending deliveries fail', async () => {
    await using one = await site()
    const webhook = await one.add()
    await happen(one.db, one.repository, start)
    const off = await one.hooks.change(actor, webhook, { enabled: false })
    assert.deepEqual([off.health, off.disabledAt, off.pending], ['disabled', start, 0])
    assert.equal(off.disabledReason, 'Disabled by ada.')
    await happen(one.db, one.repository, start)
    const ping = await one.hooks.ping(actor, webhook)
    assert.deepEqual([ping.event, ping.seq, ping.isWanted, ping.dueAt], ['ping', null, 1, start])
    const rows = await one.list(webhook)
    assert.deepEqual(
      rows.map(({ event, status, fault }) => [event, status, fault]),
      [
        ['push', 'failed', 'The webhook was disabled before this was delivered.'],
        ['ping', 'pending', ''],
      ],
    )
    const disabled = await one.hooks.find(one.repository, webhook.id)
    const on = await one.hooks.change(actor, disabled, { enabled: true })
    assert.deepEqual([on.health, on.disabledAt, on.disabledReason], ['healthy', null, null])
    await happen(one.db, one.repository, start)
    assert.equal((await one.list(webhook)).at(-1)?.status, 'pending')
  })

  test('a replay creates missing deliveries once, in order, each with the number of the previous event', async () => {
    await using one = await site()
    const early = [1, 2]
    await happen(one.db, one.repository, start - hourMs, early.length)
    one.clock.time = start
    const webhook = await one.add()
    await happen(one.db, one.repository, start, 2)
    await settle(one.db, 'success')
    await one.hooks.change(actor, webhook, { enabled: false })
    await happen(one.db, await addRepository(one.db), start)
    await happen(one.db, one.repository, start + hourMs, 3)
    one.clock.time = start + 2 * hourMs
    const ofNow = await one.hooks.find(one.repository, webhook.id)
    const since = start + hourMs
    const before = await one.list(webhook)
    const nothing = await one.sent.replay(actor, ofNow, { since: since - 1000, until: since - 1 })
    assert.deepEqual(nothing, { replayed: 0, created: 0, more: false, next: null })
    assert.deepEqual([await one.list(webhook), one.woken.times], [before, 0])
    assert.deepEqual(await one.sent.replay(actor, ofNow, { since }), {
      ...{ replayed: 0, created: 3, more: false, next: null },
    })
    const seqs = (
      await one.db
        .selectFrom('events')
        .select('seq')
        .where('kind', '=', 'push')
        .where('repositoryId', '=', one.repository.id)
        .orderBy('seq')
        .execute()
    ).map(({ seq }) => seq)
    const chain = async () =>
      (await one.list(webhook))
        .sort((a, b) => Number(a.seq) - Number(b.seq))
        .map(({ seq, previousSeq }) => [seq, previousSeq])
    assert.deepEqual((await chain()).slice(2), [
      [seqs[4], seqs[3]],
      [seqs[5], seqs[4]],
      [seqs[6], seqs[5]],
    ])
    const { lastSeq, dueAt } = await one.hooks.find(one.repository, webhook.id)
    assert.equal(lastSeq, seqs[6])
    assert.ok(dueAt !== null && dueAt <= one.clock.time)
    const again = await Promise.all([
      one.sent.replay(actor, ofNow, { since: 0 }),
      serve(await one.open(), [old], one.clock).sent.replay(actor, ofNow, { since: 0 }),
    ])
    assert.equal(again[0].created + again[1].created, early.length)
    assert.equal((await chain()).length, seqs.length)
    assert.deepEqual((await chain())[0], [seqs[0], 0])
    const rows = await one.list(webhook)
    assert.ok(rows.every((row) => row.status === 'pending' && row.isWanted === 1))
    await one.hooks.change(actor, ofNow, { enabled: true })
    await happen(one.db, one.repository, one.clock.time)
    assert.equal((await chain()).at(-1)?.[1], seqs[6])
  })

  test('with onlyFailed a replay skips successful and pending deliveries, and events before the webhook', async () => {
    await using one = await site()
    await happen(one.db, one.repository, start - 1)
    const webhook = await one.add()
    await happen(one.db, one.repository, start, 4)
    const seqs = (await one.list(webhook)).map(({ seq }) => seq ?? 0)
    await settle(one.db, 'failed', seqs.slice(0, 2))
    await settle(one.db, 'success', seqs.slice(2, 3))
    one.clock.time += 5
    const replayed = await one.sent.replay(actor, webhook, { since: 0, onlyFailed: true })
    assert.deepEqual([replayed.replayed, replayed.created], [2, 0])
    const rows = await one.list(webhook)
    assert.deepEqual(
      rows.map(({ status, isWanted }) => [status, isWanted]),
      [
        ['pending', 1],
        ['pending', 1],
        ['success', 0],
        ['pending', 0],
      ],
    )
  })

  test('a large replay continues where it ended, and skips nothing', async () => {
    await using one = await site()
    const webhook = await one.add()
    await happen(one.db, one.repository, start, 5100)
    await settle(one.db, 'failed')
    await one.hooks.change(actor, webhook, { enabled: false })
    await happen(one.db, one.repository, start, 700)
    const first = await one.sent.replay(actor, webhook, { since: start })
    assert.deepEqual([first.replayed, first.created, first.more], [5000, 0, true])
    const second = await one.sent.replay(actor, webhook, { since: start, after: first.next ?? 0 })
    assert.deepEqual(second, { replayed: 100, created: 700, more: false, next: null })
    const { count } = await one.db
      .selectFrom('deliveries')
      .select((is) => is.fn.countAll().as('count'))
      .where('isWanted', '=', 1)
      .executeTakeFirstOrThrow()
    assert.equal(Number(count), 5800)
  })

  test('deliveries of pruned events are replayed by their own time', async () => {
    await using one = await site()
    const webhook = await one.add()
    for (const at of [0, 1, 2]) await happen(one.db, one.repository, start + at * hourMs)
    await settle(one.db, 'success')
    await one.db
      .deleteFrom('events')
      .where('createdAt', '<', start + 2 * hourMs)
      .execute()
    one.clock.time = start + 3 * hourMs
    const since = start + hourMs
    assert.equal((await one.sent.replay(actor, webhook, { since, until: since })).replayed, 1)
    const statuses = (await one.list(webhook)).map(({ status }) => status)
    assert.deepEqual(statuses, ['success', 'pending', 'success'])
  })

  test('the data of deleted webhooks is removed in batches, and that of others is kept', async () => {
    await using one = await site()
    const [doomed, kept] = [await one.add('hush'), await one.add('hush')]
    await happen(one.db, one.repository, start, 1200)
    const [delivery] = await one.list(doomed)
    await one.db
      .insertInto('deliveryBodies')
      .values({ deliveryId: delivery?.id ?? '', body: '{}' })
      .execute()
    await one.hooks.remove(actor, doomed)
    await assert.rejects(one.hooks.find(one.repository, doomed.id), { code: 'webhook_not_found' })
    assert.equal((await one.hooks.list(one.repository, wholeList)).length, 1)
    await one.hooks.purge()
    const count = async (
      table: 'webhooks' | 'webhookSecrets' | 'deliveries' | 'deliveryBodies',
    ) => {
      const query = one.db.selectFrom(table).select((is) => is.fn.countAll().as('count'))
      return Number((await query.executeTakeFirstOrThrow()).count)
    }
    assert.equal(await count('deliveryBodies'), 0)
    assert.deepEqual([await count('webhooks'), await count('webhookSecrets')], [1, 1])
    assert.equal(await count('deliveries'), 1200)
    assert.equal((await one.hooks.find(one.repository, kept.id)).id, kept.id)
    const other = await addRepository(one.db)
    await one.hooks.create(actor, other, { url, events: ['push'] })
    await one.hooks.purgeRepository(one.repository.id)
    assert.deepEqual([await count('webhooks'), await count('deliveries')], [1, 0])
  })

  test('concurrent events, changes, retries and replays of a webhook do not deadlock', async () => {
    await using one = await site()
    const webhook = await one.add('hush')
    await happen(one.db, one.repository, start, 50)
    const { hooks, sent } = serve(await one.open())
    const change = (change: object) => hooks.change(actor, webhook, change)
    const queue = createDeliveryQueue({
      db: one.db,
      publish,
      clock: { now: () => start },
      log,
      schedule,
      leaseOwner: 'a',
    })
    const send = async (round: number) => {
      const jobs = await queue.claim(new Map([[webhook.id, 20]]))
      const order = round % 2 === 0 ? jobs : jobs.reverse()
      await Promise.all(order.map((job) => queue.record({ job, outcome })))
    }
    const workOf = (round: number) => [
      happen(one.db, one.repository, start, 3),
      change({ enabled: false }),
      change({ url: `http://hooks.example/${round}` }),
      change({ secret: new Sensitive(`hush ${round}`) }),
      sent.replay(actor, webhook, { since: 0 }),
      one.sent.replay(actor, webhook, { since: 0 }),
      one.list(webhook).then(([first]) => one.sent.retry(actor, webhook, first?.id ?? '')),
      one.hooks.ping(actor, webhook),
      send(round),
    ]
    // A few rounds at a time: what waits for a connection does so within a time limit.
    for (let round = 0; round < 12; round += 3)
      await Promise.all([round, round + 1, round + 2].flatMap(workOf))
    const rows = (await one.list(webhook)).filter(({ seq }) => seq !== null)
    assert.equal(new Set(rows.map(({ seq }) => seq)).size, rows.length)
    assert.ok((await one.signing.open(webhook)).length <= 2)
  })

  test('claims do not wait for locks, and of a disabled webhook include only manual deliveries', {
    skip: engine === 'sqlite' && 'it has one writer at a time',
  }, async () => {
    await using one = await site()
    const webhook = await one.add()
    await happen(one.db, one.repository, start, 4)
    const [first, second, third] = await one.list(webhook)
    const clock = { now: () => start }
    const queue = createDeliveryQueue({
      db: one.db,
      publish,
      clock,
      log,
      schedule,
      leaseOwner: 'a',
    })
    const jobs = await queue.claim(new Map([[webhook.id, 4]]))
    for (const job of jobs.slice(0, 3)) await queue.release(job)
    await one.db
      .updateTable('webhooks')
      .set({ isEnabled: 0 })
      .where('id', '=', webhook.id)
      .execute()
    await one.sent.retry(actor, webhook, third?.id ?? '')
    const [last] = jobs.slice(3)
    assert.ok(last)
    await (await one.open()).transaction().execute(async (tx) => {
      await tx
        .updateTable('deliveries')
        .set({ url })
        .where('id', '=', first?.id ?? '')
        .execute()
      const [claimed] = await Promise.all([
        queue.claim(new Map([[webhook.id, 4]])),
        queue.record({ job: last, outcome }),
      ])
      assert.deepEqual(
        claimed.map(({ delivery }) => delivery.id),
        [third?.id],
      )
    })
    const statuses = (await one.list(webhook)).map(({ id, status }) => [id, status])
    assert.deepEqual(statuses, [
      [first?.id, 'pending'],
      [second?.id, 'failed'],
      [third?.id, 'pending'],
      [last.delivery.id, 'failed'],
    ])
    await queue.claim(new Map([[webhook.id, 4]]))
    assert.equal((await one.list(webhook))[0]?.status, 'failed')
  })

  test('lists of deliveries use an index with any filter', {
    skip: engine !== 'sqlite' && 'plans of PostgreSQL depend on how much there is',
  }, async () => {
    await using one = await site()
    const webhook = await one.add()
    for (const filter of [{}, { status: 'failed' as const }, { event: 'ping' }]) {
      for (const before of ['', newId()]) {
        const plan = await explain(one.db, (db) =>
          listDeliveries(db, webhook.id, { ...filter, before, limit: 101 }),
        )
        assert.match(plan, /^SEARCH deliveries USING INDEX deliveries_listed\w* \([^)]*\)$/m)
        assert.doesNotMatch(plan, /SCAN|TEMP/)
        for (const name of Object.keys(filter)) assert.ok(plan.includes(`${name}=?`), plan)
      }
    }
  })
})

/** How SQLite finds what a query asks for. */
async function explain(db: Database, ask: (db: Database) => Promise<unknown>): Promise<string> {
  const asked: RootOperationNode[] = []
  await ask(
    db.withPlugin({
      transformQuery({ node }) {
        asked.push(node)
        return node
      },
      transformResult: async ({ result }) => result,
    }),
  )
  const [node] = asked
  assert.ok(node)
  const { sql, parameters } = db.getExecutor().compileQuery(node, { queryId: 'explained' })
  const { rows } = await db.executeQuery<{ detail: string }>(
    CompiledQuery.raw(`explain query plan ${sql}`, [...parameters]),
  )
  return rows.map(({ detail }) => detail).join('\n')
}
