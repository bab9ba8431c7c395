// Tags: each-store

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { request as httpRequest } from 'node:http'
import { buffer, text } from 'node:stream/consumers'
import { after, before, beforeEach, test } from 'node:test'
import { flushPacket, packet } from '#git/protocol/pkt-line.ts'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, type Project, spawnGit } from '../support/git.ts'
import { gitZeros, idDigits, objectFormat } from '../support/object-format.ts'
import { type Client, type Service, startService } from '../support/service.ts'

const zero = gitZeros

let service: Service
let project: Project
let owner: Client
let writer: Client
let path: string
let first: string
let second: string

before(async () => {
  service = await startService()
  project = await createProject()
  first = await project.git('rev-parse', 'HEAD')
  second = await project.commit('second.txt')
  owner = await service.client({
    username: 'ada',
    permissions: ['repo:read', 'repo:write', 'repo:delete', 'collaborator:write'],
  })
  writer = await service.client({ username: 'grace' })
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

beforeEach(async () => {
  await owner.delete('/repos/site')
  path = (await owner.post('/repos', { name: 'site' })).body.path
  await owner.post('/repos/site/collaborators', { username: 'grace' })
  await project.git('push', '--quiet', owner.remote('site'), `${first}:refs/heads/main`)
})

test('every change of a protected branch is rejected for a collaborator', async () => {
  await owner.put('/repos/site/protections/branches/main')
  await owner.put('/repos/site/protections/branches/release/*')
  for (const refspec of [
    `${second}:refs/heads/main`,
    `+${second}:refs/heads/main`,
    ':refs/heads/main',
    `${first}:refs/heads/release/1.0`,
    `${first}:refs/heads/release/a/b`,
  ]) {
    await assertRefused(refspec, /The branch ".+" is protected by the rule "(main|release\/\*)"/)
  }
  await push(writer, `${second}:refs/heads/release-notes`)
  await push(writer, `${second}:refs/tags/main`)
})

test('the owner and admins may change a protected branch', async () => {
  await owner.put('/repos/site/protections/branches/main')
  await push(owner, `${second}:refs/heads/main`)
  await push(service.admin, `+${first}:refs/heads/main`)
})

test('one rejected ref rejects the whole push', async () => {
  await owner.put('/repos/site/protections/branches/main')
  await assertRefused([`${second}:refs/heads/main`, `${second}:refs/heads/free`], /protected/)
})

test('a removed protection no longer applies', async () => {
  await owner.put('/repos/site/protections/branches/main')
  const { body } = await owner.delete('/repos/site/protections/branches/main')
  assert.deepEqual(body.branches, [])
  await push(writer, `${second}:refs/heads/main`)
})

test('protections are added once, listed in order, and accept plain or encoded slashes', async () => {
  const base = '/repos/site/protections/branches'
  await owner.put(`${base}/main`)
  await owner.put(`${base}/refs/heads/main`)
  await owner.put(`${base}/release%2F1.0`)
  const { status, body } = await owner.put(`${base}/release/1.0`)
  assert.deepEqual([status, body.branches], [200, ['main', 'release/1.0']])
  assert.deepEqual((await owner.get(base)).body, body)
  assert.deepEqual((await owner.get('/repos/site')).body.protectedBranches, body.branches)
  assert.deepEqual((await owner.get('/repos')).body[0].protectedBranches, body.branches)
  for (const branch of ['refs/tags/v1', 'a..b', 'a%20b', '', '%00', 'refs%2Fheads%2Frefs%2Fx']) {
    const answer = await owner.put(`${base}/${branch}`)
    assert.deepEqual([answer.status, answer.body.code], [400, 'invalid_request'], branch)
  }
  assert.equal((await owner.delete(`${base}/nowhere`)).status, 404)
})

test('a push through a symbolic ref is authorized for the branch that it would move', async () => {
  await owner.put('/repos/site/protections/branches/main')
  await writeFile(`${path}/refs/heads/alias`, 'ref: refs/heads/main\n')
  await assertRefused(`${second}:refs/heads/alias`, /"main" is protected/)
})

test('misleading ref names are rejected for all users, by name', exhaustive, async () => {
  const id = 'a'.repeat(idDigits)
  for (const ref of [
    ...['refs/heads/-x', 'refs/heads/HEAD', 'refs/heads/refs/heads/main', `refs/heads/${id}`],
    ...[`refs/tags/${id}`, 'refs/tags/-x', 'refs/replace/x'],
  ]) {
    const error = await refusal(owner, [`${second}:${ref}`])
    assert.ok(error.includes(`The ref "${ref}" is refused`), error)
  }
  await refusal(owner, [`${second}:refs/svc/x`])
  for (const ref of [
    'refs/notes/commits',
    'refs/pull/1/head',
    'refs/heads/é🙂',
    'refs/heads/a/-b',
  ]) {
    await push(owner, `${second}:${ref}`)
  }
})

test('permissions are checked when the hook runs, not when the push started', async () => {
  const other = await service.client({ username: 'alan' })
  await owner.post('/repos/site/collaborators', { username: 'alan' })
  const cases = [
    [writer, () => owner.put('/repos/site/protections/branches/main'), /protected/],
    [writer, () => owner.delete('/repos/site/collaborators/grace'), /not yours to see/],
    [other, () => service.admin.delete(`/tokens/${other.id}`), /deleted or has expired/],
  ] as const
  for (const [client, change, expected] of cases) {
    const answer = await pushInTwoParts(client, change)
    assert.match(answer, expected)
    assert.match(answer, /pre-receive hook declined/)
  }
  assert.match(await project.git('ls-remote', owner.remote('site'), 'main'), new RegExp(first))
})

test('a ref name with line ends cannot smuggle another update past the authorization', async () => {
  await owner.put('/repos/site/protections/branches/main')
  for (const name of [
    'refs/heads/x\n',
    'refs/heads/x\n\n',
    `refs/heads/x\n${first} ${second} refs/heads/y`,
  ]) {
    const answer = await pushByHand(writer, [
      [zero, second, name],
      [first, second, 'refs/heads/main'],
    ])
    assert.match(answer, /is not a ref name/)
  }
  assert.match(
    await project.git('ls-remote', owner.remote('site')),
    new RegExp(`${first}\trefs/heads/main$`),
  )
})

test('a push with a duplicate ref is rejected', async () => {
  const twice = await pushByHand(owner, [
    [zero, second, 'refs/heads/x'],
    [second, first, 'refs/heads/x'],
  ])
  assert.match(twice, /updates the ref "[^"]*" twice/)
})

test('deleting a missing ref is reported for this ref only, and has no event', async () => {
  const ones = '1'.repeat(idDigits)
  for (const [number, before] of [zero, ones].entries()) {
    const name = `refs/heads/beside-${number}`
    const answer = await pushByHand(owner, [
      [before, zero, 'refs/heads/nowhere'],
      [zero, second, name],
    ])
    assert.match(answer, /warning: deleting a non-existent ref/)
    assert.match(answer, new RegExp(`ok ${name}`))
    const { body: pushes } = await owner.get('/repos/site/pushes')
    assert.deepEqual(
      pushes[0].refs.map(({ ref }: { ref: string }) => ref),
      [name],
    )
  }
  const { length } = (await owner.get('/repos/site/pushes')).body
  await pushByHand(owner, [[ones, zero, 'refs/heads/nowhere']])
  assert.equal((await owner.get('/repos/site/pushes')).body.length, length)
})

test('a deletion with an unknown old value is recorded with the actual value', async () => {
  for (const before of [zero, '1'.repeat(idDigits)]) {
    await pushByHand(owner, [[zero, second, 'refs/heads/odd']])
    const answer = await pushByHand(owner, [[before, zero, 'refs/heads/odd']])
    assert.match(answer, /ok refs\/heads\/odd/)
    const { body: pushes } = await owner.get('/repos/site/pushes')
    const [{ ref, before: was, deleted }] = pushes[0].refs
    assert.deepEqual([ref, was, deleted], ['refs/heads/odd', second, true])
    assert.ok(pushes[0].undoable)
  }
})

test('a push to a repository that is renamed meanwhile succeeds', async () => {
  const answer = await pushInTwoParts(owner, () => owner.patch('/repos/site', { name: 'page' }))
  assert.match(answer, /ok refs\/heads\/main/)
  assert.match(await project.git('ls-remote', owner.remote('page')), new RegExp(second))
  await owner.delete('/repos/page')
})

function push(client: Client, ...refspecs: string[]): Promise<string> {
  return project.git('push', '--quiet', client.remote('site'), ...refspecs)
}

async function refusal(client: Client, refspecs: string[]): Promise<string> {
  const before = await project.git('ls-remote', owner.remote('site'))
  const error = await push(client, ...refspecs).then(
    () => assert.fail(`${refspecs} was let in`),
    (fault) => fault,
  )
  assert.equal(await project.git('ls-remote', owner.remote('site')), before)
  return error.stderr
}

async function assertRefused(refspecs: string | string[], expected: RegExp): Promise<void> {
  assert.match(await refusal(writer, [refspecs].flat()), expected)
}

/** Pushes hand-made commands: before, after and ref of each. */
async function pushByHand(client: Client, commands: [string, string, string][]): Promise<string> {
  const capabilities = `\0 report-status side-band-64k delete-refs object-format=${objectFormat}`
  const lines = commands.map((command, index) =>
    packet(command.join(' ') + (index === 0 ? capabilities : '')),
  )
  const response = await fetch(`${service.url}/repos/site.git/git-receive-pack`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${client.token}`,
      'content-type': 'application/x-git-receive-pack-request',
    },
    body: Buffer.concat([...lines, flushPacket, await packOfSecond()]),
  })
  return response.text()
}

function packOfSecond(): Promise<Buffer> {
  const packing = spawnGit(project.path, ['pack-objects', '--revs', '--stdout', '--quiet'])
  packing.stdin.end(`${second}\n^${first}\n`)
  return buffer(packing.stdout)
}

/** Pushes `second` to main as git would, and does something when half of it has been sent. */
async function pushInTwoParts(client: Client, between: () => Promise<unknown>): Promise<string> {
  const pack = await packOfSecond()
  const capabilities = `\0 report-status side-band-64k object-format=${objectFormat}`
  const command = packet(`${first} ${second} refs/heads/main${capabilities}`)
  const body = Buffer.concat([command, flushPacket, pack])
  const request = httpRequest(`${service.url}/repos/site.git/git-receive-pack`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${client.token}`,
      'content-type': 'application/x-git-receive-pack-request',
      'content-length': body.length,
    },
  })
  const half = body.length - 10
  const answered = once(request, 'response')
  await new Promise((resolve) => request.write(body.subarray(0, half), resolve))
  await until('the push has begun', async () =>
    /^svc_git_limiter_running\{.*push.*\} 1$/m.test((await service.admin.get('/metrics')).text),
  )
  await between()
  request.end(body.subarray(half))
  const [response] = await answered
  return text(response)
}
