import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { temporaryFolder } from '../support/git.ts'
import { type Service, startService } from '../support/service.ts'

const execute = promisify(execFile)
const root = fileURLToPath(new URL('../..', import.meta.url))

let service: Service

before(async () => {
  service = await startService({ env: { SVC_RUNNER: 'on' } })
})

after(() => service[Symbol.asyncDispose]())

/** The commands of a section, on the service of the test. */
async function commandsOf(file: string, heading: string): Promise<string[]> {
  const page = await readFile(`${root}/${file}`, 'utf8')
  const [, section = ''] = new RegExp(`\n## ${heading}\n(.*?)\n## `, 's').exec(page) ?? []
  return [...section.matchAll(/```sh\n(.*?)```/gs)].map(([, block = '']) =>
    block.replaceAll('http://127.0.0.1:8080', service.url),
  )
}

test('the tour of the README works when pasted', async () => {
  await using home = await temporaryFolder()
  const blocks = await commandsOf('README.md', 'A tour')
  assert.equal(blocks.length, 2)
  const [steps = ''] = blocks
  assert.ok(steps.trim().split('\n').length <= 11)
  const env = {
    PATH: process.env.PATH,
    HOME: home.path,
    ...{ GIT_AUTHOR_NAME: 'Ada', GIT_AUTHOR_EMAIL: 'ada@example.com' },
    ...{ GIT_COMMITTER_NAME: 'Ada', GIT_COMMITTER_EMAIL: 'ada@example.com' },
  }
  const running = execute('bash', ['-c', blocks.join('')], { cwd: root, env })
  running.child.stdin?.end(`${service.adminToken}\n`)
  const { stdout, stderr } = await running
  assert.match(stdout, /^Logged in to http/m)
  assert.match(stdout, /^Created tour\.\nCloned tour into tour\.$/m)
  assert.match(stderr, /\[new branch\] +HEAD -> main/)
  assert.match(stdout, /^It works, 42 times$/m)
  assert.match(stdout, /^Run 1: success$/m)
  assert.match(stdout, /^Protected the branch main\.$/m)
  assert.match(stdout, /refs\/heads\/mistake created$/m)
  assert.match(stdout, /^Undid it: refs\/heads\/mistake deleted\.$/m)
  assert.match(
    stdout,
    /\/colour is not a field of this request; it takes name, defaultBranch, objectFormat, visibility\./,
  )
  assert.doesNotMatch(stderr, /fatal|command not found|svc:/)
})
