import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../support/condition.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { type Client, type Service, startService } from '../support/service.ts'
import { pushFiles } from '../support/workflow-site.ts'

let service: Service
let owner: Client
let receiver: Receiver

before(async () => {
  service = await startService({ env: { SVC_WEBHOOK_RETRY_SCHEDULE: '0' } })
  receiver = await startReceiver()
  owner = await service.client({
    username: 'ada',
    permissions: ['repo:read', 'repo:write', 'webhook:read', 'webhook:write'],
  })
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await receiver[Symbol.asyncDispose]()
})

type Listed = { id: string; seq: number; previousSeq: number; status: string; attempts: number }

/** The deliveries of a webhook, oldest event first, when there is a number of them and none waits any more. */
const settled = (at: string, count: number): Promise<Listed[]> =>
  until(`${count} deliveries are there, and none waits`, async () => {
    const { body } = await owner.get(`${at}/deliveries?limit=1000`)
    const isSettled = body.every(({ status }: Listed) => status !== 'pending')
    return (
      body.length === count &&
      isSettled &&
      body.sort((one: Listed, other: Listed) => one.seq - other.seq)
    )
  })

const push = (name: string, count: number) => pushFiles(owner, name, { 'a.txt': `${count}` })

/** How many pushes a repository's log has. */
const untilPushed = (name: string, count: number) =>
  until(`${count} pushes have events`, async () => {
    const { body } = await owner.get(`/events?repository=${name}&kind=push`)
    return body.length === count
  })

async function addHook(name: string): Promise<string> {
  const made = await owner.post(`/repos/${name}/webhooks`, { url: receiver.url, events: ['push'] })
  assert.equal(made.status, 201, made.text)
  return `/repos/${name}/webhooks/${made.body.id}`
}

test('events while a webhook was disabled, or before it was created, are replayed from the log', async () => {
  await push('site', 1)
  await untilPushed('site', 1)
  const at = await addHook('site')
  await push('site', 2)
  await untilPushed('site', 2)
  const [first] = await settled(at, 1)
  const since = Date.now()
  await owner.patch(at, { enabled: false })
  await push('site', 3)
  await untilPushed('site', 3)
  await push('site', 4)
  await untilPushed('site', 4)
  assert.deepEqual(await settled(at, 1), [first])
  // Also while it is disabled, because it is requested.
  const replayed = await owner.post(`${at}/replay`, { since })
  assert.deepEqual(
    [replayed.status, replayed.body],
    [202, { replayed: 0, created: 2, more: false, next: null }],
  )
  const deliveries = await settled(at, 3)
  assert.deepEqual(
    deliveries.map(({ status, attempts }) => [status, attempts]),
    Array(3).fill(['success', 1]),
  )
  const chain = deliveries.map(({ seq }) => seq)
  assert.deepEqual(
    deliveries.map(({ previousSeq }) => previousSeq),
    [first?.previousSeq, ...chain.slice(0, -1)],
  )
  await owner.patch(at, { enabled: true })
  const { body } = await owner.post(`${at}/replay`, { since: 0 })
  assert.deepEqual([body.replayed, body.created], [3, 1])
  const whole = await settled(at, 4)
  assert.deepEqual(
    whole.map(({ attempts }) => attempts),
    [1, 2, 2, 2],
  )
  const sent = receiver.received.map(({ headers }) => headers['x-github-delivery'])
  assert.deepEqual(
    sent.toSorted(),
    whole.flatMap(({ id, attempts }) => Array(attempts).fill(id)).toSorted(),
  )
})

test('with onlyFailed no successful delivery is repeated', async () => {
  await push('page', 1)
  await untilPushed('page', 1)
  const at = await addHook('page')
  receiver.answerWith((_, response) => response.writeHead(500).end())
  await push('page', 2)
  await untilPushed('page', 2)
  assert.equal((await settled(at, 1))[0]?.status, 'failed')
  receiver.answerWith((_, response) => response.writeHead(204).end())
  await push('page', 3)
  await untilPushed('page', 3)
  await settled(at, 2)
  const { body } = await owner.post(`${at}/replay`, { since: 0, onlyFailed: true })
  assert.deepEqual(body, { replayed: 1, created: 0, more: false, next: null })
  assert.deepEqual(
    (await settled(at, 2)).map(({ status, attempts }) => [status, attempts]),
    [
      ['success', 2],
      ['success', 1],
    ],
  )
})

test('an invalid time is rejected', async () => {
  await push('plain', 1)
  const at = await addHook('plain')
  for (const body of [{}, { since: -1 }, { since: 1.5 }, { since: '1' }, { since: 0, after: -1 }]) {
    const { status, body: problem } = await owner.post(`${at}/replay`, body)
    assert.deepEqual([status, problem.code], [400, 'invalid_request'])
  }
})

test('impossible periods are rejected, with the accepted form', async () => {
  await push('times', 1)
  const at = await addHook('times')
  const now = Date.now()
  const refused: [object, RegExp][] = [
    [{ since: now - 1000, until: now - 1001 }, /^must not be after `until`, which is \d+\.$/],
    [{ since: now + 3_600_000 }, /^must not be in the future: in milliseconds .* now is \d+\.$/],
    [{ since: now + 3_600_000, until: now + 7_200_000 }, /^must not be in the future/],
  ]
  for (const [body, detail] of refused) {
    const answer = await owner.post(`${at}/replay`, body)
    assert.deepEqual([answer.status, answer.body.errors[0].pointer], [400, '/since'], answer.text)
    assert.match(answer.body.errors[0].detail, detail)
  }
  const taken = [
    // Clocks differ.
    { since: now + 30_000 },
    { since: now, until: now },
    { since: 0, until: now + 3_600_000 },
    { since: 0, after: Number.MAX_SAFE_INTEGER },
  ]
  for (const body of taken) assert.equal((await owner.post(`${at}/replay`, body)).status, 202)
})
