import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { freePort } from '../support/free-port.ts'
import { without } from '../support/programs.ts'
import { type Service, startServiceWithSsh } from '../support/service.ts'

const execute = promisify(execFile)
const root = fileURLToPath(new URL('../..', import.meta.url))

let service: Service

before(async () => {
  service = await startServiceWithSsh({ env: { SVC_RUNNER: 'on' } })
})

after(() => service[Symbol.asyncDispose]())

test('the tour of the README works when pasted', {
  skip: without('openssh'),
}, async () => {
  const readme = await readFile(`${root}/README.md`, 'utf8')
  const [, tour = ''] = /\n## A tour\n(.*?)\n## /s.exec(readme) ?? []
  const blocks = [...tour.matchAll(/```sh\n(.*?)```/gs)].map(([, block]) => block)
  assert.ok(blocks.length > 5)
  const script = blocks
    .join('')
    .replace('http://127.0.0.1:8080', service.url)
    .replace('ssh://svc@127.0.0.1:2222', service.ssh)
    .replaceAll('8081', String(await freePort()))
  const env = { PATH: process.env.PATH, HOME: '/nonexistent', SVC_DATA_DIR: service.dataDir }
  const { stdout, stderr } = await execute('bash', ['-c', `${script}\npwd`], { cwd: root, env })
  assert.match(stdout, /"name":"tour"/)
  assert.match(stderr, /\[new branch\] +HEAD -> main/)
  assert.match(stderr, /Cloning into '\.\.\/tour-over-ssh'/)
  assert.match(stdout, /^Name: tour$/m)
  assert.match(stdout, /^\[\{"id":"\w+","name":"tour",.*\}\]$/m)
  assert.match(stdout, /"name":"imported",.*"state":"ready"/)
  assert.match(stdout, /"message":"The secret API_KEY is saved;/)
  assert.match(stdout, /^"conclusion":"success"$/m)
  assert.match(stdout, /^\w+ has \*\*\* for [0-9a-f]{40}$/m)
  assert.doesNotMatch(stdout, /sesame/)
  assert.match(stdout, /\{"branches":\["main"\],/)
  assert.match(stdout, /\{"repoName":"tour","collaborators":\["grace"\],"roles"/)
  assert.match(stderr, /\[new branch\] +HEAD -> idea/)
  assert.match(stderr, /The branch "main" is protected by the rule "main"/)
  assert.match(stdout, /^received: push$/m)
  assert.match(stdout, /"event":"push","url":"[^"]+","status":"success","attempts":\d+/)
  assert.match(stdout, /"via":"undo".*"ref":"refs\/heads\/mistake".*"deleted":true/)
  assert.match(stdout, /"kind":"push".*"ref":"refs\/heads\/mistake"/)
  assert.match(stdout, /"name":"journey"/)
  assert.match(stdout, /\trefs\/heads\/idea/)
  assert.match(stdout, /\/colour is not a field of this request; it takes name, defaultBranch\./)
  assert.doesNotMatch(stderr, /fatal|command not found/)
  const { body } = await service.admin.get('/repos')
  assert.deepEqual(
    body.map(({ name }: { name: string }) => name),
    ['journey'],
  )
})
