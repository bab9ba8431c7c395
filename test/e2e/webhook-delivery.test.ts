import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Webhooks } from '@octokit/webhooks'
import { Webhook } from 'standardwebhooks'
import { createCommitPool } from '../support/commit-pool.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import { git } from '../support/git.ts'
import { without } from '../support/programs.ts'
import { startReceiver } from '../support/receiver.ts'
import { startWebhookSite } from '../support/webhook-site.ts'

const encryptionKey = Buffer.alloc(32, 7).toString('base64')
const secret = `whsec_${Buffer.from('0123456789abcdef01234567').toString('base64')}`

test('a push is delivered as libraries for receivers expect it', async () => {
  await assertDelivered({})
})

test('a push is delivered from PostgreSQL, too', { skip: without('postgres') }, async () => {
  const database = await createPostgresDatabase()
  await assertDelivered({ SVC_DATABASE_URL: database.url }).finally(database.drop)
})

test('each ref of a push has a delivery with the number of the previous one', async () => {
  await using receiver = await startReceiver()
  await using commits = await createCommitPool(1)
  await using site = await startWebhookSite()
  const webhookId = await site.subscribe(receiver.url)
  const commit = commits.next()
  const specs = Array.from({ length: 30 }, (_, n) => `${commit}:refs/heads/b${n}`)
  await git(commits.path, ['push', site.admin().remote('site'), ...specs])
  const deliveries = await site.untilDelivered(webhookId, 30)
  assert.equal(deliveries.length, 30)
  let last = 0
  for (const { seq, previousSeq, status } of deliveries) {
    assert.equal(status, 'success')
    assert.equal(previousSeq, last)
    last = seq
  }
  const refs = new Set(receiver.received.map(({ json }) => json.ref))
  assert.equal(refs.size, 30)
})

test('a successful delivery can be retried, with the same id and bytes', async () => {
  await using receiver = await startReceiver()
  await using commits = await createCommitPool(1)
  await using site = await startWebhookSite()
  const webhookId = await site.subscribe(receiver.url)
  await git(commits.path, [
    'push',
    site.admin().remote('site'),
    `${commits.next()}:refs/heads/main`,
  ])
  const [delivery] = await site.untilDelivered(webhookId)
  const path = `/repos/site/webhooks/${webhookId}/deliveries/${delivery.id}`
  const answer = await site.admin().post(`${path}/retry`)
  assert.equal(answer.status, 202)
  await receiver.untilReceived(2)
  await site.untilDelivered(webhookId)
  const [first, second] = receiver.received
  assert.deepEqual(second?.body, first?.body)
  assert.equal(second?.headers['webhook-id'], first?.headers['webhook-id'])
  const { body } = await site.admin().get(path)
  assert.equal(body.attempts, 2)
  assert.deepEqual(
    body.history.map(({ trigger }: { trigger: string }) => trigger),
    ['schedule', 'manual'],
  )
  assert.equal(body.body, first?.body.toString())
})

test('a commit by the API is delivered like a push, and its event says so', async () => {
  await using receiver = await startReceiver()
  await using site = await startWebhookSite()
  const webhookId = await site.subscribe(receiver.url)
  const changes = [{ path: 'a.txt', content: 'a' }]
  const body = { branch: 'main', message: 'Begin', changes }
  const { body: made } = await site.admin().post('/repos/site/commits', body)
  const [delivery] = await site.untilDelivered(webhookId)
  const [received, ...others] = receiver.received
  assert.deepEqual(others, [])
  assert.deepEqual([received?.json.ref, received?.json.after], ['refs/heads/main', made.id])
  assert.deepEqual(
    [received?.json.head_commit.id, received?.json.head_commit.added],
    [made.id, ['a.txt']],
  )
  const { body: events } = await site.admin().get(`/events?after=${delivery.seq - 1}&limit=1`)
  assert.deepEqual(
    events.map(({ kind, data }: { kind: string; data: { via: string; after: string } }) => ({
      ...{ kind, via: data.via, after: data.after },
    })),
    [{ kind: 'push', via: 'api', after: made.id }],
  )
})

async function assertDelivered(env: Record<string, string>): Promise<void> {
  await using receiver = await startReceiver((_received, response) =>
    response.writeHead(200, { 'set-cookie': 'session=1', 'x-served-by': 'me' }).end('thanks'),
  )
  await using commits = await createCommitPool(1)
  await using site = await startWebhookSite({ SVC_ENCRYPTION_KEY: encryptionKey, ...env })
  const webhookId = await site.subscribe(receiver.url, { secret })
  const commit = commits.next()
  await git(commits.path, ['push', site.admin().remote('site'), `${commit}:refs/heads/main`])
  const [delivery] = await site.untilDelivered(webhookId)
  const [received] = receiver.received
  assert.ok(received)
  // What Node read of the request: none of these comes twice.
  const headers = received.headers as Record<string, string>
  const text = received.body.toString()
  new Webhook(secret).verify(text, headers)
  const github = new Webhooks({ secret })
  assert.ok(await github.verify(text, headers['x-hub-signature-256'] ?? ''))
  assert.equal(received.json.after, commit)
  assert.deepEqual(
    [headers['x-github-event'], headers['x-svc-event'], headers['content-type']],
    ['push', 'push', 'application/json'],
  )
  assert.equal(headers['x-github-delivery'], delivery.id)
  assert.equal(headers['webhook-id'], delivery.id)
  assert.equal(headers['x-github-hook-id'], webhookId)
  assert.equal(headers['x-svc-sequence'], String(delivery.seq))
  assert.match(headers['user-agent'] ?? '', /^svc\/\d/)
  assert.deepEqual(
    [delivery.status, delivery.attempts, delivery.maxAttempts, delivery.responseStatus],
    ['success', 1, 5, 200],
  )
  const path = `/repos/site/webhooks/${webhookId}/deliveries/${delivery.id}`
  const { body, text: whole } = await site.admin().get(path)
  const [attempt] = body.history
  assert.equal(attempt.responseBody, 'thanks')
  assert.equal(attempt.responseHeaders['x-served-by'], 'me')
  assert.equal(attempt.responseHeaders['set-cookie'], '[hidden]')
  assert.equal(attempt.requestHeaders['webhook-signature'], '[hidden]')
  assert.equal(attempt.requestHeaders['content-length'], String(received.body.length))
  assert.ok(!whole.includes(headers['x-hub-signature-256'] ?? '-'))
  assert.ok(!site.service().log().includes(secret))
}
