// Tags: each-store

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { objectFormatNames } from '#base/object-id.ts'
import { packHeader } from '#git/objects/pack.ts'
import { flushPacket, packet } from '#git/protocol/pkt-line.ts'
import { createProject, git, type Project, temporaryFolder } from '../support/git.ts'
import { objectFormat } from '../support/object-format.ts'
import { gitHeaders, pushBody } from '../support/raw-git.ts'
import { type Client, type Service, startServiceWithSsh } from '../support/service.ts'
import { createSshUser, type Ended, type SshUser, toEnded } from '../support/ssh-user.ts'

let service: Service
let client: Client
let user: SshUser
let project: Project
let remotes: Record<'http' | 'ssh', string>

before(async () => {
  service = await startServiceWithSsh()
  client = await service.client({ username: 'ada', permissions: ['repo:read', 'repo:write'] })
  user = await createSshUser(service, client)
  project = await createProject()
  for (const name of ['site', 'empty']) await client.post('/repos', { name })
  remotes = { http: client.remote('site'), ssh: user.remote('site') }
  await project.git('push', '--quiet', remotes.http, 'HEAD:main')
})

after(async () => {
  await project[Symbol.asyncDispose]()
  await user[Symbol.asyncDispose]()
  await service[Symbol.asyncDispose]()
})

const tryGit = (cwd: string, ...args: string[]): Promise<Ended> =>
  toEnded(git(cwd, args, { GIT_SSH_COMMAND: user.command }))

describe('unknown push options', () => {
  for (const transport of ['http', 'ssh'] as const) {
    test(`each is named on the client's terminal over ${transport}, and the push succeeds`, async () => {
      const wanted = ['ci.skipped', 'merge_request.title=Ä "quoted"', '', 'leak.allow=all']
      const options = wanted.flatMap((option) => ['-o', option])
      const { exitCode, stderr } = await tryGit(
        project.path,
        ...['push', ...options, remotes[transport], `HEAD:options-${transport}`],
      )
      assert.equal(exitCode, 0, stderr)
      const named = [...stderr.matchAll(/^remote: (The push option .*?)\s*$/gm)].map(
        ([, line]) => line,
      )
      assert.deepEqual(
        named,
        wanted.map(
          (option) =>
            `The push option "${option}" has no effect. The options are wait, ci.skip, ci.input.NAME=value, topic=NAME, and leak.allow with the id of a finding.`,
        ),
      )
      const refs = await tryGit('/', 'ls-remote', remotes.http, `options-${transport}`)
      assert.match(refs.stdout, /^[0-9a-f]{40,64}/)
    })

    test(`too many, and one that is too long, are rejected over ${transport} and change nothing`, async () => {
      const before = await tryGit('/', 'ls-remote', remotes.http)
      const many = Array.from({ length: 101 }, (_, number) => ['-o', `x${number}`]).flat()
      for (const [options, expected] of [
        [many, /A push may have at most 100 options\./],
        [['-o', 'x'.repeat(4097)], /A push option may have at most 4096 bytes\./],
      ] as const) {
        const push = ['push', ...options, remotes[transport], 'HEAD:refs/heads/refused']
        const { exitCode, stderr } = await tryGit(project.path, ...push)
        assert.notEqual(exitCode, 0)
        assert.match(stderr, expected)
      }
      assert.deepEqual(await tryGit('/', 'ls-remote', remotes.http), before)
    })
  }

  test('push options are escaped and shortened on the terminal', async () => {
    const option = `\u001b[31m\u0007\u009b\u202e${'long'.repeat(500)}`
    const push = ['push', '-o', option, remotes.http, 'HEAD:odd']
    const { exitCode, stderr } = await tryGit(project.path, ...push)
    assert.equal(exitCode, 0, stderr)
    assert.match(stderr, /The push option "\?\[31m\?\?\?longlong.{60,100}…" has no effect/)
    assert.doesNotMatch(stderr, /\u0007|\u009b|\u202e|\u001b\[31m/)
  })

  test('a push without changes, or whose client shows no lines, has none', async () => {
    const unchanged = ['push', '-o', 'x', remotes.http, 'HEAD:main']
    const { exitCode, stderr } = await tryGit(project.path, ...unchanged)
    assert.deepEqual([exitCode, stderr], [0, 'Everything up-to-date\n'])
    const commands = await pushBody(project.path, 'bandless')
    const end = Number.parseInt(commands.toString('latin1', 0, 4), 16)
    const body = Buffer.concat([
      packet(Buffer.concat([commands.subarray(4, end), Buffer.from(' push-options')])),
      ...[flushPacket, packet('x'), packet('y\n'), flushPacket],
      commands.subarray(end + flushPacket.length),
    ])
    const answer = await fetch(`${service.url}/repos/site.git/git-receive-pack`, {
      method: 'POST',
      headers: gitHeaders('git-receive-pack', client.token, body.length) as Record<string, string>,
      body,
    })
    assert.equal(await answer.text(), '000eunpack ok\n001bok refs/heads/bandless\n0000')
  })
})

describe('names and pushes that Git knows and this server refuses', () => {
  for (const transport of ['http', 'ssh'] as const) {
    for (const length of [1025, 4096, 8192]) {
      test(`a ref name of ${length} characters gets a sentence over ${transport}`, async () => {
        const name = `refs/heads/${'long-name/'.repeat(length)}`.slice(0, length - 1).concat('x')
        for (const command of [
          ['push', remotes[transport], `HEAD:${name}`],
          ['push', remotes[transport], 'HEAD:refs/heads/beside', `HEAD:${name}`],
        ]) {
          const { exitCode, stderr } = await tryGit(project.path, ...command)
          assert.notEqual(exitCode, 0)
          assert.match(
            stderr,
            new RegExp(`of ${length} characters, which may have at most 1024, is`),
          )
        }
        const fetched = await tryGit(project.path, 'fetch', remotes[transport], name)
        assert.match(fetched.stderr, /^fatal: couldn't find remote ref refs\/heads\/long-name/m)
      })
    }
  }

  test('a signed push over SSH is refused by its name', async () => {
    const push = ['push', '--signed', remotes.ssh, 'HEAD:signed']
    const { exitCode, stderr } = await tryGit(project.path, ...push)
    assert.notEqual(exitCode, 0)
    assert.match(stderr, /the receiving end does not support --signed push/)
    assert.match(stderr, /^svc: .*does not offer, such as signed pushes \(git push --signed\)/m)
  })
})

// Without its checksum, which nothing reads.
const emptyPack = packHeader(0)

describe('a repository of another object format', () => {
  const format = objectFormat === 'sha1' ? 'sha256' : 'sha1'
  const [names, digits] = [objectFormatNames, { sha1: 40, sha256: 64 }]
  let other: Awaited<ReturnType<typeof temporaryFolder>>

  before(async () => {
    other = await temporaryFolder()
    const kind = `--object-format=${format}`
    await git(other.path, ['init', '--quiet', '--initial-branch=main', kind])
    await git(other.path, ['commit', '--quiet', '--allow-empty', '-m', 'x'])
  })

  after(() => other[Symbol.asyncDispose]())

  for (const transport of ['http', 'ssh'] as const) {
    test(`is not pushed over ${transport}: git says why, and over SSH the server does`, async () => {
      const remote = remotes[transport]
      const { exitCode, stderr } = await tryGit(other.path, 'push', remote, 'HEAD:other')
      assert.notEqual(exitCode, 0)
      assert.match(stderr, /does not support this repository's hash algorithm/)
      if (transport === 'ssh') assert.match(stderr, /^svc: .*SHA-1 and SHA-256 cannot be mixed\.$/m)
    })

    test(`is not fetched into over ${transport}: git says why`, async () => {
      const remote = remotes[transport]
      const { exitCode, stderr } = await tryGit(other.path, 'fetch', remote, 'main')
      assert.notEqual(exitCode, 0)
      assert.match(stderr, /mismatched algorithms: client \w+; server \w+/)
    })
  }

  test('a client that sends ids of another format gets the error from the server', async () => {
    const send = async (kind: 'git-upload-pack' | 'git-receive-pack', body: Buffer) => {
      const headers = gitHeaders(kind, client.token, body.length) as Record<string, string>
      const answer = await fetch(`${service.url}/repos/site.git/${kind}`, {
        method: 'POST',
        headers: { ...headers, 'git-protocol': 'version=2' },
        body,
      })
      return `${answer.status} ${await answer.text()}`
    }
    const ids = `${'0'.repeat(digits[format])} ${'1'.repeat(digits[format])}`
    const push = packet(`${ids} refs/heads/x\0report-status object-format=${format}`)
    const list = [packet('command=ls-refs\n'), packet(`object-format=${format}\n`), flushPacket]
    const pushed = await send('git-receive-pack', Buffer.concat([push, flushPacket, emptyPack]))
    const [own, its] = [names[objectFormat], names[format]]
    assert.ok(pushed.includes(`has the object format ${own}, and the push has ${its}`), pushed)
    const listed = await send('git-upload-pack', Buffer.concat(list))
    const sentence = `This repository has the object format ${own}, and the client uses ${its}.`
    assert.equal(listed, `400 ${sentence}\n`)
  })
})
