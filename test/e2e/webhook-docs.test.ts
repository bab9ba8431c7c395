import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { until } from '../support/condition.ts'
import { freePort } from '../support/free-port.ts'
import { temporaryFolder } from '../support/git.ts'
import { type Service, startService } from '../support/service.ts'

const execute = promisify(execFile)
const root = fileURLToPath(new URL('../..', import.meta.url))
const guide = await readFile(join(root, 'docs/webhooks.md'), 'utf8')

let service: Service

before(async () => {
  service = await startService()
})

after(() => service[Symbol.asyncDispose]())

function blocksOf(text: string, heading: string, language: string): string[] {
  const [, section = ''] = new RegExp(`\n## ${heading}\n(.*?)\n## `, 's').exec(text) ?? []
  const blocks = section.matchAll(new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, 'gs'))
  return [...blocks].map(([, block = '']) => block)
}

test('the quick start works when pasted', async () => {
  const script = blocksOf(guide, 'Quick start', 'sh')
    .join('')
    .replaceAll('8081', String(await freePort()))
  const path = `${join(root, 'bin')}:${process.env.PATH}`
  const env = {
    PATH: path,
    HOME: '/nonexistent',
    SVC_URL: service.url,
    SVC_TOKEN: service.admin.token,
  }
  const { stdout, stderr } = await execute('bash', ['-c', script], { cwd: root, env })
  assert.match(stdout, /^received: ping$/m)
  const delivery = JSON.parse(/^\{\n.*?^\}$/ms.exec(stdout)?.[0] ?? '')
  const { event, status, attempts, history } = delivery
  assert.deepEqual([event, status, attempts], ['ping', 'success', 1])
  assert.equal(history[0].responseStatus, 200)
  assert.equal(history[0].requestHeaders['x-hub-signature-256'], '[hidden]')
  assert.equal(stderr, '')
  assert.deepEqual((await service.admin.get('/repos')).body, [])
})

for (const [index, name] of ['standardwebhooks', '@octokit/webhooks', 'node:crypto'].entries()) {
  test(`the receiver with ${name} accepts only signed deliveries`, async () => {
    const snippet = blocksOf(guide, 'Verifying', 'js')[index] ?? ''
    assert.ok(snippet.includes(`'${name}'`))
    await using folder = await temporaryFolder()
    await symlink(join(root, 'node_modules'), join(folder.path, 'node_modules'))
    const port = await freePort()
    const file = join(folder.path, 'receiver.mjs')
    await writeFile(file, snippet.replace('8081', String(port)))
    const secret = `whsec_${Buffer.alloc(32, index + 1).toString('base64')}`
    const env = { PATH: process.env.PATH, SECRET: secret }
    await using stack = new AsyncDisposableStack()
    const receiver = stack.adopt(
      spawn('node', [file], { env, stdio: ['ignore', 'pipe', 'inherit'] }),
      async (child) => {
        child.kill()
        await once(child, 'exit')
      },
    )
    let said = ''
    receiver.stdout.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
    const url = `http://127.0.0.1:${port}/`
    const send = (headers: Record<string, string>) =>
      fetch(url, { method: 'POST', headers, body: '{}' })
    await until('it listens', () => send({}).catch(() => false))

    const repository = `verified-${index}`
    await service.admin.post('/repos', { name: repository })
    const ping = async (signedWith: string) => {
      const hooks = `/repos/${repository}/webhooks`
      const body = { url, events: ['push'], secret: signedWith }
      const { id } = (await service.admin.post(hooks, body)).body
      const delivery = (await service.admin.post(`${hooks}/${id}/ping`)).body
      return until('the ping has an end', async () => {
        const at = `${hooks}/${id}/deliveries/${delivery.id}`
        const { status, responseStatus } = (await service.admin.get(at)).body
        return status !== 'pending' && [status, responseStatus]
      })
    }
    assert.deepEqual(await ping(secret), ['success', 204])
    assert.deepEqual(await ping(`${secret.slice(0, -4)}AAA=`), ['failed', 401])
    const now = String(Math.floor(Date.now() / 1000))
    const forged = {
      'webhook-id': 'x',
      'webhook-timestamp': now,
      'webhook-signature': 'v1,eA==',
      'x-hub-signature-256': `sha256=${'0'.repeat(64)}`,
    }
    for (const headers of [{}, forged]) assert.equal((await send(headers)).status, 401)
    assert.equal(said, 'verified: ping\n')
  })
}
