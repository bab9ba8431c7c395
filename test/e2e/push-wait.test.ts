// Tags: each-store

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { without } from '../support/programs.ts'
import { onlyInSoak } from '../support/rounds.ts'
import { type Client, type Service, startServiceWithSsh } from '../support/service.ts'
import { createSshUser, type SshUser } from '../support/ssh-user.ts'
import { commitFiles, onPush, startPushSite, type Transport } from '../support/waiting-push.ts'
import { endOf } from '../support/workflow-site.ts'

let service: Service
let owner: Client
let user: SshUser

before(async () => {
  service = await startServiceWithSsh({ env: { SVC_RUNNER: 'on' } })
  const permissions = ['repo:read', 'repo:write', 'collaborator:write']
  owner = await service.client({
    username: 'ada',
    permissions: [...permissions, 'workflow:read', 'workflow:trigger', 'secrets:write'],
  })
  user = await createSshUser(service, owner)
})

after(async () => {
  await user[Symbol.asyncDispose]()
  await service[Symbol.asyncDispose]()
})

const transports: [Transport, () => SshUser | undefined][] = [
  ['http', () => undefined],
  ['ssh', () => user],
]
const options = {
  skip: without('bubblewrap') || without('openssh'),
  timeout: 300_000,
}

for (const [via, userOf] of transports) {
  // What happens after the transport has handed the push on is the same for both.
  const once = via === 'http' ? {} : onlyInSoak

  describe(`a push with the option wait, over ${via}`, options, () => {
    test('satisfies what a protection requires, and its runs are not started again', async () => {
      await using site = await startPushSite(service, owner, `required-${via}`)
      await owner.put(`/repos/${site.name}/protections/branches/main`, { requires: ['ci.yml'] })
      const commit = await commitFiles(site.project, {
        '.svc/workflows/ci.yml': onPush('test -f readme.txt'),
        '.svc/workflows/other.yml': onPush('true').replace('CI', 'Other'),
      })
      const refused = await site.push([], ['HEAD:main'], userOf()).ended
      assert.equal(refused.code, 1)
      assert.match(refused.text, /needs a successful run of \.svc\/workflows\/ci\.yml first/)
      assert.match(refused.text, /git push -o wait/)
      const pushed = await site.push(['wait'], ['HEAD:main'], userOf()).ended
      assert.equal(pushed.code, 0, pushed.text)
      assert.match(
        pushed.text,
        /remote: Run 1 \(CI\) is queued: http:\S+\/r\/required-\w+\/runs\/1/,
      )
      assert.match(pushed.text, /remote: Run 1 is running\./)
      assert.match(pushed.text, /remote: Run 1 \(CI\) succeeded after \d+ s\./)
      assert.equal(await site.branch('main'), commit)
      const runs = await site.runs()
      assert.deepEqual(
        runs.map(({ files, commit, event }: { files: string[]; commit: string; event: string }) => [
          files.join(),
          commit,
          event,
        ]),
        [
          ['.svc/workflows/ci.yml', commit, 'push'],
          ['.svc/workflows/other.yml', commit, 'push'],
        ],
      )
      // What has succeeded at this commit is not run again.
      await owner.put(`/repos/${site.name}/protections/branches/next`, { requires: ['ci.yml'] })
      const again = await site.push(['wait', 'ci.skip'], ['HEAD:next'], userOf()).ended
      assert.equal(again.code, 0, again.text)
      assert.match(again.text, /There is no run to wait for/)
      assert.equal((await site.runs()).length, 2)
    })

    test('is refused with what failed, masked, and nothing of it stays', async () => {
      await using site = await startPushSite(service, owner, `failing-${via}`)
      await owner.put(`/repos/${site.name}/secrets/PASSWORD`, { value: 'correct horse' })
      const before = await site.branch('main')
      const commit = await commitFiles(site.project, {
        '.svc/workflows/ci.yml': onPush('echo "with $PASSWORD"; printf "\\033[31mred\\n"; exit 7'),
      })
      const { code, text } = await site.push(['wait'], ['HEAD:main'], userOf()).ended
      assert.equal(code, 1)
      assert.match(text, /remote: Run 1 \(CI\) ended with failure; nothing was pushed\./)
      assert.match(text, /remote: job test, step "Check": exit code 7/)
      assert.match(text, /remote: {3}with \*\*\*/)
      assert.match(text, /remote: {3}\?\[31mred/)
      assert.match(text, /\[remote rejected\] HEAD -> main \(pre-receive hook declined\)/)
      assert.doesNotMatch(text, /correct horse/)
      assert.equal(await site.branch('main'), before)
      assert.equal((await owner.get(`/repos/${site.name}/commits/${commit}`)).status, 404)
      const [run] = await site.runs()
      assert.deepEqual([run.conclusion, run.commit], ['failure', commit])
      const whole = await owner.get(`/repos/${site.name}/workflows/1`)
      assert.equal(whole.body.failure.exitCode, 7)
      assert.deepEqual((await owner.get(`/repos/${site.name}/pushes`)).body.length, 1)
      // Its commit cannot be fetched any more.
      await owner.post(`/repos/${site.name}/workflows/1/rerun`)
      const rerun = await endOf(owner, site.name, run.id)
      assert.match(JSON.stringify(rerun), /The commit \w+ is no longer in the repository/)
    })

    test('cancels its run when the user presses Ctrl-C', async () => {
      await using site = await startPushSite(service, owner, `interrupted-${via}`)
      const before = await site.branch('main')
      await commitFiles(site.project, { '.svc/workflows/ci.yml': onPush('sleep 3141') })
      const push = site.push(['wait'], ['HEAD:main'], userOf())
      await push.shows('Run 1 is running.')
      const [{ id }] = await site.runs()
      // Before that its runner may be reading the commit, which goes with the push.
      await until('its step runs', async () => {
        const { body } = await owner.get(`/repos/${site.name}/workflows/${id}`)
        return body.steps?.some(({ status }: { status: string }) => status === 'running')
      })
      push.signal('SIGINT')
      await push.ended
      const run = await endOf(owner, site.name, id)
      assert.equal(run.conclusion, 'cancelled')
      assert.match(run.fault, /The push that waited for this run was refused: Its client disconn/)
      assert.equal(await site.branch('main'), before)
    })

    test('is refused when another push moves its ref meanwhile, which need not wait', {
      ...exhaustive,
      ...once,
    }, async () => {
      await using site = await startPushSite(service, owner, `moved-${via}`)
      await commitFiles(site.project, { '.svc/workflows/ci.yml': onPush('sleep 4') })
      const push = site.push(['wait'], ['HEAD:main'], userOf())
      await push.shows('Run 1 is running.')
      await commitFiles(site.project, {}, 'Other')
      const other = await site.push(['ci.skip'], ['HEAD:main'], userOf()).ended
      assert.equal(other.code, 0, other.text)
      const { code, text } = await push.ended
      assert.equal(code, 1)
      assert.match(text, /The ref "refs\/heads\/main" was changed by another push in the meantime/)
      assert.equal(await site.branch('main'), await site.project.git('rev-parse', 'HEAD'))
    })

    test('runs what it would start, of each ref, with its inputs', once, async () => {
      await using site = await startPushSite(service, owner, `matching-${via}`)
      const inputs = 'workflow_dispatch: { inputs: { level: { type: number, default: 1 } } }'
      await commitFiles(site.project, {
        '.svc/workflows/ci.yml': `name: CI\non: { push: { branches: [main] }, ${inputs} }\njobs: { one: { steps: [{ run: 'test "\${{ inputs.level }}" = 5' }] } }\n`,
        '.svc/workflows/tags.yml': 'on: { push: { tags: [v1] } }\nsteps: [{ run: true }]\n',
      })
      const refs = ['HEAD:main', 'HEAD:refs/tags/v1', 'HEAD:other']
      const given = ['wait', 'ci.input.level=5', 'ci.input.absent=x']
      const { code, text } = await site.push(given, refs, userOf()).ended
      assert.equal(code, 0, text)
      const runs = await site.runs()
      assert.deepEqual(
        runs.map(({ files, ref, inputs }: { files: string[]; ref: string; inputs: object }) => [
          files.join().split('/').at(-1),
          ref,
          inputs,
        ]),
        [
          ['ci.yml', 'refs/heads/main', { level: 5 }],
          ['tags.yml', 'refs/tags/v1', {}],
        ],
      )
      await commitFiles(site.project, {}, 'Next')
      const bad = await site.push(['wait', 'ci.input.level=x'], ['HEAD:main'], userOf()).ended
      assert.equal(bad.code, 1)
      assert.match(bad.text, /ci\.yml: "level" must be a number\./)
    })
  })
}

describe('push options for runs', options, () => {
  test('ci.skip starts none, and ci.input sets inputs of those that declare them', async () => {
    await using site = await startPushSite(service, owner, 'options')
    const inputs = 'workflow_dispatch: { inputs: { level: { default: low } } }'
    await commitFiles(site.project, {
      '.svc/workflows/a.yml': `on: { push: , ${inputs} }\nsteps: [{ run: true }]\n`,
      '.svc/workflows/b.yml': 'on: push\nsteps: [{ run: true }]\n',
    })
    assert.equal((await site.push(['ci.skip'], ['HEAD:main']).ended).code, 0)
    assert.deepEqual(await site.runs(), [])
    await commitFiles(site.project, {}, 'Next')
    assert.equal((await site.push(['ci.input.level=high=er'], ['HEAD:main']).ended).code, 0)
    const runs = await site.runs()
    assert.deepEqual(
      runs.map(({ inputs }: { inputs: object }) => inputs),
      [{ level: 'high=er' }, {}],
    )
  })

  test('a push with an invalid workflow file is refused at once when it waits', async () => {
    await using site = await startPushSite(service, owner, 'invalid')
    await commitFiles(site.project, { '.svc/workflows/ci.yml': 'on: push\nsteps: 1\n' })
    const { code, text } = await site.push(['wait'], ['HEAD:main']).ended
    assert.equal(code, 1)
    assert.match(text, /remote: \.svc\/workflows\/ci\.yml:2:/)
    assert.deepEqual(await site.runs(), [])
  })

  test('a required file that the commit does not have is named', async () => {
    await using site = await startPushSite(service, owner, 'missing')
    await owner.put('/repos/missing/protections/branches/main', { requires: ['ci.yml'] })
    await commitFiles(site.project, {})
    const { code, text } = await site.push(['wait'], ['HEAD:main']).ended
    assert.equal(code, 1)
    assert.match(text, /There is no \.svc\/workflows\/ci\.yml in this commit/)
  })

  test('a status that is missing is named before any run starts', async () => {
    await using site = await startPushSite(service, owner, 'status')
    const requires = ['ci.yml', { status: 'build' }]
    await owner.put('/repos/status/protections/branches/main', { requires })
    await commitFiles(site.project, { '.svc/workflows/ci.yml': onPush('true') })
    const { code, text } = await site.push(['wait'], ['HEAD:main']).ended
    assert.equal(code, 1)
    assert.match(text, /needs the status "build" to be success.*waits for no status/)
    assert.deepEqual(await site.runs(), [])
  })

  test('a push that may not change its ref starts no run', async () => {
    await using site = await startPushSite(service, owner, 'closed')
    const member = await service.client({ permissions: ['repo:write', 'repo:read'] })
    await owner.post('/repos/closed/collaborators', { username: member.username })
    await owner.put('/repos/closed/protections/branches/main', { requires: ['ci.yml'] })
    await commitFiles(site.project, { '.svc/workflows/ci.yml': onPush('true') })
    const push = site.project.git('push', '-o', 'wait', member.remote('closed'), 'HEAD:main')
    await assert.rejects(push, /only the owner of the repository or an admin may change it/)
    assert.deepEqual(await site.runs(), [])
  })
})
