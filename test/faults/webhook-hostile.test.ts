// Tags: exhaustive
import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { createAuthority } from '../support/certificates.ts'
import { createCommitPool } from '../support/commit-pool.ts'
import { until } from '../support/condition.ts'
import { onEachDatabase } from '../support/databases.ts'
import {
  addRepository,
  addWebhook,
  publishPushes,
  startDelivering,
} from '../support/delivery-site.ts'
import { git, temporaryFolder } from '../support/git.ts'
import { behaviours, startHostile } from '../support/hostile-receivers.ts'
import { assertFrugal } from '../support/memory.ts'
import { without } from '../support/programs.ts'
import { startReceiver } from '../support/receiver.ts'
import { startWebhookSite } from '../support/webhook-site.ts'

// Receivers that hang do so until the test ends.
const forever = { stopMs: 1, attemptTimeoutMs: 3_600_000 }

/** The error of a delivery to each of them; empty if it succeeds. */
const messages: Record<keyof typeof behaviours, string> = {
  resets: 'The receiver reset the connection.',
  hangsUp: 'The receiver closed the connection without a response.',
  isSilent: 'The receiver did not respond within 15 s.',
  drips: 'The receiver did not respond within 15 s.',
  dripsBody: '',
  endlessHeaders: 'The response headers are too long.',
  endlessHints: 'The response head is too large.',
  endlessReason: 'The response head is too large.',
  endlessBody: '',
  endlessFailure: 'The receiver responded with status 500.',
  bomb: '',
  noHttp: 'The response is not valid HTTP.',
  twoLengths: 'The response is not valid HTTP.',
  hugeLength: 'The response is not valid HTTP.',
  lengthAndChunks: 'The response is not valid HTTP.',
  noStatus: 'The response is not valid HTTP.',
  breaksOff: '',
}

test('for any behaviour of receivers, each delivery ends with its reason, and memory stays flat', async () => {
  await using stack = new AsyncDisposableStack()
  const good = stack.use(await startReceiver())
  const inside = stack.use(await startReceiver())
  const redirecting = stack.use(
    await startReceiver((_received, response) =>
      response.writeHead(307, { location: inside.url }).end(),
    ),
  )
  const commits = stack.use(await createCommitPool(12))
  const site = stack.use(await startWebhookSite({ SVC_WEBHOOK_RETRY_SCHEDULE: '0' }))
  const expected = new Map<string, string>()
  for (const [name, behaviour] of Object.entries(behaviours)) {
    const { url } = stack.use(await startHostile(behaviour))
    expected.set(await site.subscribe(url), messages[name as keyof typeof behaviours])
  }
  const closed = await startHostile(behaviours.isSilent)
  await closed[Symbol.asyncDispose]()
  expected.set(await site.subscribe(closed.url), 'The receiver refused the connection.')
  expected.set(
    await site.subscribe(redirecting.url),
    'The receiver responded with status 307; redirects are not followed.',
  )
  await site.subscribe(good.url)

  const push = (branch: string) =>
    git(commits.path, [
      'push',
      site.admin().remote('site'),
      `${commits.next()}:refs/heads/${branch}`,
    ])
  // What the first ones load is no growth.
  await push('warm-up')
  await good.untilReceived(1)
  await assertFrugal(site.service(), async () => {
    for (let number = 1; number <= 10; number++) {
      await push(`b${number}`)
      await good.untilReceived(number + 1)
    }
    for (const [webhookId, fault] of expected) {
      const deliveries = await site.untilDone(webhookId, 1)
      const [{ status, error, id }] = deliveries
      assert.deepEqual([status, error], [fault === '' ? 'success' : 'failed', fault || null])
      const path = `/repos/site/webhooks/${webhookId}/deliveries/${id}`
      const [attempt] = (await site.admin().get(path)).body.history
      assert.ok((attempt.responseBody?.length ?? 0) <= 16_384)
    }
  })
  assert.equal(inside.received.length, 0)
})

test('an invalid certificate is reported', { skip: without('openssl') }, async () => {
  await using stack = new AsyncDisposableStack()
  const folder = stack.use(await temporaryFolder())
  const authority = await createAuthority(folder.path)
  const commits = stack.use(await createCommitPool(1))
  const site = stack.use(
    await startWebhookSite({
      SVC_WEBHOOK_RETRY_SCHEDULE: '0',
      NODE_EXTRA_CA_CERTS: authority.path,
    }),
  )
  const answer = (socket: Socket) => void socket.write('HTTP/1.1 204 No Content\r\n\r\n')
  const cases = [
    [await authority.issue('localhost'), null],
    [await authority.issue('localhost', { days: -1 }), 'The certificate of localhost has expired.'],
    [
      await authority.issue('other.example'),
      'The certificate of the receiver is not for localhost.',
    ],
    [await authority.selfSigned('localhost'), 'The certificate of localhost is self-signed.'],
  ] as const
  const expected = new Map<string, string | null>()
  for (const [certificate, fault] of cases) {
    const { url } = stack.use(await startHostile(answer, certificate))
    expected.set(await site.subscribe(url), fault)
  }
  const plain = stack.use(await startHostile(answer))
  const mistaken = `https://localhost:${plain.port}/hook`
  expected.set(await site.subscribe(mistaken), 'The TLS handshake with the receiver failed.')
  await git(commits.path, [
    'push',
    site.admin().remote('site'),
    `${commits.next()}:refs/heads/main`,
  ])
  for (const [webhookId, fault] of expected) {
    const [{ status, error }] = await site.untilDelivered(webhookId)
    assert.deepEqual([status, error], [fault === null ? 'success' : 'failed', fault])
  }
})

onEachDatabase((fresh) => {
  test('thousands of deliveries to hanging hosts do not delay others', async () => {
    await using stack = new AsyncDisposableStack()
    const database = stack.use(await fresh())
    const db = await database.open()
    const good = stack.use(await startReceiver())
    const own = await addRepository(db)
    await addWebhook(db, own, good.url)
    const dead: Awaited<ReturnType<typeof startHostile>>[] = []
    for (let n = 0; n < 20; n++) {
      const hanging = stack.use(await startHostile(behaviours.isSilent))
      const repositoryId = await addRepository(db)
      await addWebhook(db, repositoryId, hanging.url)
      await publishPushes(db, repositoryId, 200, Date.now())
      dead.push(hanging)
    }
    const loop = stack.use(startDelivering(db, forever))
    await until('all that hang are connected to', () =>
      dead.every(({ connections }) => connections() === 1),
    )
    for (let number = 1; number <= 10; number++) {
      await publishPushes(db, own, 1, Date.now())
      loop.wake()
      await good.untilReceived(number)
    }
    assert.ok(dead.every(({ connections }) => connections() <= 1))
  })

  test('hanging URLs of a host do not delay others of the same host', async () => {
    await using stack = new AsyncDisposableStack()
    const database = stack.use(await fresh())
    const db = await database.open()
    let hanging = 0
    const host = stack.use(
      await startReceiver(({ path }, response) => {
        if (path === '/hang') hanging += 1
        else response.writeHead(204).end()
      }),
    )
    const receivedCount = () => host.received.filter(({ path }) => path === '/hook').length
    const own = await addRepository(db)
    const stranger = await addRepository(db)
    await addWebhook(db, own, host.url)
    for (const repositoryId of [own, stranger]) {
      await addWebhook(db, repositoryId, new URL('/hang', host.url).href)
      await publishPushes(db, repositoryId, 50, Date.now())
    }
    const loop = stack.use(startDelivering(db, forever))
    await until('both hang, and all else has come', () => hanging === 2 && receivedCount() === 50)
    for (let number = 1; number <= 10; number++) {
      await publishPushes(db, own, 1, Date.now())
      loop.wake()
      await until('it has come', () => receivedCount() === 50 + number)
    }
    assert.equal(hanging, 2)
  })

  test('receivers that stop responding do not delay others of their repository', async () => {
    await using stack = new AsyncDisposableStack()
    const database = stack.use(await fresh())
    const db = await database.open()
    const good = stack.use(await startReceiver())
    const others = [stack.use(await startReceiver()), stack.use(await startReceiver())]
    const repositoryId = await addRepository(db)
    for (const { url } of [good, ...others]) await addWebhook(db, repositoryId, url)
    const loop = stack.use(startDelivering(db, forever))
    await publishPushes(db, repositoryId, 60, Date.now())
    loop.wake()
    for (const receiver of [good, ...others]) await receiver.untilReceived(60)
    for (const receiver of others) receiver.answerWith(() => {})
    await publishPushes(db, repositoryId, 200, Date.now())
    loop.wake()
    await good.untilReceived(260)
  })

  test('a name that resolves differently the second time is checked again, and not connected to', async () => {
    await using stack = new AsyncDisposableStack()
    const database = stack.use(await fresh())
    const db = await database.open()
    const good = stack.use(await startReceiver())
    let asked = 0
    const lookup = async () => [{ address: asked++ === 0 ? '127.0.0.1' : '169.254.169.254' }]
    const repositoryId = await addRepository(db)
    const { port } = new URL(good.url)
    const webhookId = await addWebhook(db, repositoryId, `http://rebinding.example:${port}/hook`)
    const open = () => startDelivering(db, { lookup, schedule: [0] })
    for (const round of [1, 2]) {
      await publishPushes(db, repositoryId, 1, Date.now())
      // A new one asks anew; else an answer is used again for some seconds.
      await using _loop = open()
      await until('it is done', async () => {
        const rows = await db.selectFrom('deliveries').select('status').execute()
        return rows.length === round && rows.every(({ status }) => status !== 'pending')
      })
    }
    const rows = await db
      .selectFrom('deliveries')
      .select(['status', 'fault'])
      .where('webhookId', '=', webhookId)
      .orderBy('id')
      .execute()
    assert.equal(rows[0]?.status, 'success')
    assert.equal(rows[1]?.status, 'failed')
    assert.match(
      rows[1]?.fault ?? '',
      /^The host "rebinding.example" has .* to which this server may not connect/,
    )
    assert.ok(!/169|127\.0/.test(rows[1]?.fault ?? ''))
    assert.equal(good.received.length, 1)
    assert.equal(good.received[0]?.headers.host, `rebinding.example:${port}`)
  })
})
