// Tags: exhaustive
import assert from 'node:assert/strict'
import { createHmac, randomBytes } from 'node:crypto'
import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { assertRefused } from '../support/backups.ts'
import { runSvc } from '../support/command.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import { temporaryFolder } from '../support/git.ts'
import { without } from '../support/programs.ts'
import { type Received, startReceiver } from '../support/receiver.ts'
import { type Service, startService } from '../support/service.ts'

const newKey = () => randomBytes(32).toString('base64')
const [old, next] = [newKey(), newKey()]
const hooks = '/repos/site/webhooks'

/** A data directory that can be served with several keys, one after the other. */
async function createSite(more: Record<string, string> = {}) {
  const folder = await temporaryFolder()
  const dataDir = join(folder.path, 'data')
  return {
    dataDir,
    serve: (keys: string) =>
      startService({ dataDir, env: { SVC_ENCRYPTION_KEY: keys, SVC_LOG_LEVEL: 'debug', ...more } }),
    run: (args: string[], keys: string, step?: string) =>
      runSvc(args, {
        SVC_DATA_DIR: dataDir,
        SVC_ENCRYPTION_KEY: keys,
        ...more,
        ...(step !== undefined && { SVC_FAULT_POINT: step }),
      }),
    [Symbol.asyncDispose]: folder[Symbol.asyncDispose],
  }
}

async function addHook({ admin }: Service, url: string, secret: string): Promise<string> {
  await admin.post('/repos', { name: 'site' })
  const made = await admin.post(hooks, { url, events: ['push'], secret })
  assert.equal(made.status, 201, made.text)
  return `${hooks}/${made.body.id}`
}

/** With which of some secrets a request is signed, in GitHub's way and in that of Standard Webhooks. */
function signersOf({ headers, body }: Received, secrets: string[]) {
  const text = `${headers['webhook-id']}.${headers['webhook-timestamp']}.`
  const standard = `${headers['webhook-signature'] ?? ''}`.split(' ')
  const hmac = (secret: string, ...parts: (string | Buffer)[]) => {
    const mac = createHmac('sha256', secret)
    for (const part of parts) mac.update(part)
    return mac
  }
  return {
    github: secrets.filter(
      (secret) => headers['x-hub-signature-256'] === `sha256=${hmac(secret, body).digest('hex')}`,
    ),
    standard: standard.map((signature) =>
      secrets.find((secret) => signature === `v1,${hmac(secret, text, body).digest('base64')}`),
    ),
  }
}

test('a delivery is signed with the new secret and, for a given time, with the previous one', async () => {
  await using site = await createSite()
  await using service = await site.serve(old)
  await using receiver = await startReceiver()
  const secrets = ['first', 'second', 'third']
  const at = await addHook(service, receiver.url, 'first')
  const signers = async () => {
    await service.admin.post(`${at}/ping`)
    const all = await receiver.untilReceived(receiver.received.length + 1)
    const last = all.at(-1)
    assert.ok(last)
    return signersOf(last, secrets)
  }
  assert.deepEqual(await signers(), { github: ['first'], standard: ['first'] })
  const { body } = await service.admin.patch(at, { secret: 'second' })
  assert.ok(body.secretExpiresAt > Date.now() + 86_000_000)
  assert.deepEqual(await signers(), { github: ['second'], standard: ['second', 'first'] })
  await service.admin.patch(at, { secret: 'third', keepPreviousSecretSeconds: 0 })
  assert.deepEqual(await signers(), { github: ['third'], standard: ['third'] })
  await service.admin.patch(at, { secret: null })
  await service.admin.post(`${at}/ping`)
  const all = await receiver.untilReceived(receiver.received.length + 1)
  const names = Object.keys(all.at(-1)?.headers ?? {})
  assert.ok(!names.includes('x-hub-signature-256') && !names.includes('webhook-signature'))
})

test('a signing secret appears nowhere in plain text: in no response, log, event, or file of the data directory', async () => {
  const mark = 'hush-7c21e0'
  await using site = await createSite()
  await using service = await site.serve(old)
  await using receiver = await startReceiver((_, response) => response.writeHead(500).end())
  const { admin } = service
  const at = await addHook(service, receiver.url, mark)
  const { body: ping } = await admin.post(`${at}/ping`)
  await receiver.untilReceived(1)
  const body = { url: receiver.url, events: ['push'], secret: mark }
  const answers = await Promise.all([
    admin.patch(at, { secret: mark }),
    admin.patch(at, { secret: `whsec_${mark}!` }),
    admin.post(hooks, { ...body, url: `http://${mark}:x@127.0.0.1/` }),
    admin.post(hooks, { ...body, secret: { mark } }),
    admin.post(hooks, { ...body, secret: mark.repeat(200) }),
    admin.get(hooks),
    admin.get(at),
    admin.get(`${at}/deliveries`),
    admin.get(`${at}/deliveries/${ping.id}`),
    admin.get('/events'),
  ])
  for (const { text, status } of answers) assert.ok(!text.includes(mark), `${status} ${text}`)
  assert.ok(!service.log().includes(mark))
  const forms = [mark, Buffer.from(mark).toString('base64').replace(/=+$/, '')]
  for (const entry of await readdir(site.dataDir, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const bytes = await readFile(join(entry.parentPath, entry.name))
    for (const form of forms) assert.ok(!bytes.includes(form), entry.name)
  }
})

test('without a key no webhook gets a secret, and signed ones get nothing unsigned', async () => {
  await using site = await createSite()
  await using receiver = await startReceiver()
  let at: string
  {
    await using service = await site.serve(old)
    at = await addHook(service, receiver.url, 'hush')
    await service.end('SIGTERM')
  }
  assertRefused(
    { ...(await site.run(['serve'], next)), code: 1 },
    /1 secret is sealed with a key that is not configured/,
  )
  await rm(join(site.dataDir, 'encryption.key'))
  await using service = await startService({ dataDir: site.dataDir })
  assert.match(service.log(), /there is no encryption key/)
  const { admin } = service
  const made = await admin.post(hooks, { url: receiver.url, events: ['push'], secret: 'x' })
  assert.deepEqual([made.status, made.body.code], [503, 'encryption_key_missing'])
  const { body: ping } = await admin.post(`${at}/ping`)
  const { body: plain } = await admin.post(hooks, { url: receiver.url, events: ['push'] })
  await admin.post(`${hooks}/${plain.id}/ping`)
  const [received] = await receiver.untilReceived(1)
  assert.equal(received?.headers['x-github-hook-id'], plain.id)
  const { body } = await admin.get(`${at}/deliveries/${ping.id}`)
  assert.notEqual(body.status, 'success')
})

describe('a rotation of the encryption key', () => {
  const both = `${next},${old}`

  async function rotate(env: Record<string, string>) {
    await using site = await createSite(env)
    await using receiver = await startReceiver()
    let at: string
    {
      await using service = await site.serve(old)
      at = await addHook(service, receiver.url, 'first')
      await service.admin.patch(at, { secret: 'second' })
      await service.admin.put('/repos/site/secrets/TOKEN', { value: 'x' })
      await service.end('SIGTERM')
    }
    for (let killed = 0; killed < 3; killed++) {
      const { signal } = await site.run(['secrets', 'rotate'], both, 'secrets.resealed')
      assert.equal(signal, 'SIGKILL')
    }
    assert.match((await site.run(['secrets', 'rotate'], both)).out, /: 0\.\n$/)
    await using service = await site.serve(next)
    await service.admin.post(`${at}/ping`)
    const [received] = await receiver.untilReceived(1)
    assert.ok(received)
    assert.deepEqual(signersOf(received, ['first', 'second']).standard, ['second', 'first'])
  }

  test('includes signing secrets, and survives a kill', () => rotate({}))

  test('on PostgreSQL, too', { skip: without('postgres') }, async () => {
    const database = await createPostgresDatabase()
    await rotate({ SVC_DATABASE_URL: database.url }).finally(() => database.drop())
  })
})

test('a signing secret without a key is deleted only on request, and its webhook disabled', async () => {
  await using site = await createSite()
  await using receiver = await startReceiver()
  let at: string
  {
    await using service = await site.serve(old)
    at = await addHook(service, receiver.url, 'hush')
    await service.end('SIGTERM')
  }
  const name = at.replace(/.*\//, 'site/webhook ')
  const refused = await site.run(['secrets', 'rotate'], next)
  assertRefused(refused, new RegExp(`1 cannot be decrypted: ${name}; .*--discard-unreadable`))
  const discard = ['secrets', 'rotate', '--discard-unreadable']
  assert.match((await site.run(discard, next)).out, /: 0\. Deleted: 1\.\n$/)
  await using service = await site.serve(next)
  const { body } = await service.admin.get(at)
  assert.deepEqual([body.health, body.enabled, body.hasSecret], ['disabled', false, false])
  assert.match(body.disabledReason, /secret could not be opened/)
  const on = await service.admin.patch(at, { secret: 'new', enabled: true })
  assert.deepEqual([on.body.health, on.body.disabledReason], ['healthy', null])
})
