// Tags: exhaustive
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createProject, type Project } from '../support/git.ts'
import { gitHeaders, packOf, toPushBody } from '../support/raw-git.ts'
import { sampleOf } from '../support/rounds.ts'
import { type Client, createClient, type Service, startService } from '../support/service.ts'

const all = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte))
// Those that separate something in Git's protocol, in hooks or in addresses, and some of the others.
const bytes = [
  ...all.filter((byte) => /[^!-~]/.test(byte) && byte < '\u0080'),
  ...'/:=#"\'\\;,?*',
  ...sampleOf(all.slice(0x80), 12),
]
const capabilities = 'report-status push-options'

let service: Service
let project: Project
let agent: Client
let packed: Awaited<ReturnType<typeof packOf>>

before(async () => {
  service = await startService()
  project = await createProject()
  packed = await packOf(project.path)
  await service.admin.post('/repos', { name: 'site' })
  await project.git('push', '--quiet', service.admin.remote('site'), 'HEAD:main')
  const wanted = { name: 'agent', username: 'admin', refs: ['refs/heads/agents/*'] }
  const { body } = await service.admin.post('/tokens', wanted)
  agent = createClient(service.url, body.token)
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

/** Pushes branches with the token for some refs; the response, each byte a character. */
async function push(parts: Parameters<typeof toPushBody>[1]): Promise<string> {
  const body = toPushBody(packed, parts)
  const response = await fetch(`${service.url}/repos/site.git/git-receive-pack`, {
    method: 'POST',
    headers: gitHeaders('git-receive-pack', agent.token, body.length) as Record<string, string>,
    body,
  })
  return Buffer.from(await response.arrayBuffer()).toString('latin1')
}

async function refs(): Promise<string[]> {
  const listed = await project.git('ls-remote', service.admin.remote('site'))
  return listed
    .split('\n')
    .map((line) => line.split('\t')[1] ?? '')
    .filter((ref) => ref !== 'HEAD')
}

test('no byte in a push option, a capability or beside a ref name allows a push to another ref', async () => {
  const known = await refs()
  assert.deepEqual(known, ['refs/heads/main'])
  for (const [index, byte] of bytes.entries()) {
    // With `wait`, git's own hooks ask the server.
    const options = [
      ...['wait', byte, `x${byte}y`, `leak.allow=${byte}`, `ci.input.a=${byte}refs/heads/agents/x`],
      ...[`${byte}ok\n`, `${byte}refs=refs/heads/*${byte}user=root${byte}`],
    ]
    const agents = `${capabilities} agent=a${byte}b session-id=${byte}`
    const refused = await push({ branches: ['stolen'], capabilities: agents, options })
    assert.doesNotMatch(refused, /ok refs\//, JSON.stringify(byte))
    const joined = `agents/${index}${byte}refs/heads/stolen`
    await push({ branches: [joined], capabilities, options })
    await push({ branches: [`agents/a`, `stolen${byte}agents/b`], capabilities, options })
    const name = `agents/n${index}`
    const accepted = await push({ branches: [name], capabilities, options })
    assert.match(accepted, new RegExp(`ok refs/heads/${name}`), JSON.stringify(byte))
  }
  const outside = (await refs()).filter((ref) => !ref.startsWith('refs/heads/agents/'))
  assert.deepEqual(outside, ['refs/heads/main'])
})
