import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { newTokenString } from '../../src/base/token-string.ts'
import { createProject, git, type Project } from '../support/git.ts'
import { type Client, type Service, startServiceWithSsh } from '../support/service.ts'
import { createSshUser, type Ended, type SshUser, toEnded } from '../support/ssh-user.ts'

let service: Service
let client: Client
let user: SshUser

before(async () => {
  service = await startServiceWithSsh()
  client = await service.client({ username: 'ada', permissions: ['repo:read', 'repo:write'] })
  user = await createSshUser(service, client)
})

after(async () => {
  await user?.[Symbol.asyncDispose]()
  await service?.[Symbol.asyncDispose]()
})

const tryGit = (project: Project, ...args: string[]): Promise<Ended> =>
  toEnded(git(project.path, args, { GIT_SSH_COMMAND: user.command }))

/** The ids of the findings in what a push printed. */
const idsIn = ({ stderr }: Ended) => [...stderr.matchAll(/\(finding (\w+)\)/g)].map(([, id]) => id)

async function eventsOf(repository: string, kind: string) {
  const { body } = await client.get(`/events?kind=${kind}&repository=${repository}`)
  return body
}

describe('a push with a credential', () => {
  for (const transport of ['http', 'ssh'] as const) {
    test(`is refused over ${transport}, and accepted with the id of the finding`, async () => {
      const name = `refused-${transport}`
      await client.post('/repos', { name })
      await using project = await createProject()
      const remote = transport === 'http' ? client.remote(name) : user.remote(name)
      const token = newTokenString()
      const commit = await project.commit('deploy.sh', `#!/bin/sh\nexport TOKEN=${token}\n`)
      const refused = await tryGit(project, 'push', remote, 'main')
      assert.notEqual(refused.exitCode, 0)
      assert.match(refused.stderr, /This push contains a credential\. Nothing was changed\./)
      assert.match(refused.stderr, /svc token, which is not live \(finding [0-9a-f]{12}\)/)
      const place = `deploy.sh:2 in commit ${commit.slice(0, 12)} of refs/heads/main`
      assert.ok(refused.stderr.includes(place), refused.stderr)
      assert.ok(!refused.stderr.includes(token.slice(4, 20)))
      assert.equal((await tryGit(project, 'ls-remote', remote)).stdout, '')

      const [id = ''] = idsIn(refused)
      assert.deepEqual(idsIn(await tryGit(project, 'push', remote, 'main')), [id])
      const allowed = await tryGit(project, 'push', '-o', `leak.allow=${id}`, remote, 'main')
      assert.equal(allowed.exitCode, 0, allowed.stderr)
      assert.doesNotMatch(allowed.stderr, /has no effect/)
      const [event, ...others] = await eventsOf(name, 'push.leak_allowed')
      assert.deepEqual(others, [])
      assert.deepEqual(event.data.findings, [
        { id, kind: 'svc token', commit, path: 'deploy.sh', line: 2 },
      ])
      assert.equal(event.data.via, transport)
      assert.ok(!service.log().includes(token))
    })
  }
})
