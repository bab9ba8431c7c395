import assert from 'node:assert/strict'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { createProject, git, type Project, temporaryFolder } from '../support/git.ts'
import { without } from '../support/programs.ts'
import { type Client, type Service, startService, toAnswer } from '../support/service.ts'
import { createSshUser, type SshUser, toEnded } from '../support/ssh-user.ts'

let service: Service
let client: Client
let user: SshUser
let project: Project
let remotes: Record<'http' | 'ssh', string>

before(async () => {
  service = await startService()
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

describe('Git LFS', () => {
  const sentence = /Git LFS is not supported by this server\. Commit such files without LFS/
  const requests = [
    ['POST', 'objects/batch'],
    ['POST', 'objects'],
    ['GET', 'locks?path=a&refspec=refs/heads/main&limit=1'],
    ['POST', 'locks'],
    ['POST', 'locks/verify'],
    ['POST', 'locks/1/unlock'],
  ] as const
  const send = (method: string, path: string, authorization?: string) =>
    fetch(`${service.url}${path}`, {
      method,
      headers: {
        'content-type': 'application/vnd.git-lfs+json; charset=utf-8',
        ...(authorization && { authorization }),
      },
      ...(method === 'POST' && { body: '{"operation":"upload"}' }),
    }).then(toAnswer)
  const basic = (token: string) => `Basic ${Buffer.from(`x:${token}`).toString('base64')}`

  test('every request is answered with an error of its own kind, after the usual checks', async () => {
    const stranger = await service.client({ username: 'grace' })
    for (const [method, path] of requests) {
      const refused = async (name: string, authorization?: string) => {
        const answer = await send(method, `/repos/${name}.git/info/lfs/${path}`, authorization)
        assert.equal(answer.headers.get('content-type'), 'application/vnd.git-lfs+json')
        return answer
      }
      const answer = await refused('site', basic(client.token))
      assert.equal(answer.status, 501)
      assert.match(answer.body.message, sentence)
      const anonymous = await refused('site')
      assert.equal(anonymous.status, 401)
      assert.match(anonymous.headers.get('www-authenticate') ?? '', /^Basic realm=/)
      const hidden = await refused('site', basic(stranger.token))
      const absent = await refused('gone', basic(stranger.token))
      assert.deepEqual([hidden.status, absent.status], [404, 404])
      assert.equal(hidden.text.replaceAll('site', 'gone'), absent.text)
    }
  })

  describe('with its real client', { skip: without('git-lfs') }, () => {
    for (const transport of ['http', 'ssh'] as const) {
      test(`a push over ${transport} shows it on the terminal, and nothing is pushed`, async () => {
        await using lfs = await createProject()
        await using home = await temporaryFolder()
        const env = { GIT_SSH_COMMAND: user.command, HOME: home.path }
        const attempt = (...args: string[]) => toEnded(git(lfs.path, args, env))
        const remote = transport === 'http' ? client.remote('empty') : user.remote('empty')
        for (const args of [
          ['lfs', 'install', '--local'],
          ['lfs', 'track', '*.bin'],
          ['remote', 'add', 'origin', remote],
        ]) {
          assert.equal((await attempt(...args)).exitCode, 0)
        }
        await writeFile(join(lfs.path, 'large.bin'), 'large')
        await attempt('add', '.gitattributes', 'large.bin')
        assert.equal((await attempt('commit', '--quiet', '-m', 'Add a large file')).exitCode, 0)
        for (const args of [
          ['lfs', 'push', 'origin', 'main'],
          ['push', 'origin', 'main'],
          // Over SSH the client shows nothing of what the server says here.
          ...(transport === 'http' ? [['lfs', 'locks']] : []),
          ['lfs', 'fetch', 'origin', 'main'],
        ]) {
          if (args.includes('fetch')) await rm(join(lfs.path, '.git/lfs'), { recursive: true })
          const { exitCode, stdout, stderr } = await attempt(...args)
          assert.match(stdout + stderr, sentence, `${args} ended with ${exitCode}`)
          assert.notEqual(exitCode, 0)
          // Over SSH the client advises it whenever its first command fails.
          if (transport === 'http') assert.doesNotMatch(stdout + stderr, /locksverify/)
        }
        assert.equal((await attempt('ls-remote', 'origin')).stdout, '')
      })
    }
  })

  test('its commands over SSH fail with the sentence, not as commands that are not there', async () => {
    for (const line of [
      'git-lfs-authenticate site.git upload',
      "git-lfs-authenticate '/gone.git' download 123",
      'git-lfs-transfer site.git upload',
      'git lfs-authenticate site upload',
      'git-lfs-authenticate',
    ]) {
      const { exitCode, stdout, stderr } = await user.ssh(line)
      assert.deepEqual([exitCode, stdout], [128, ''], line)
      assert.match(stderr, new RegExp(`^svc: ${sentence.source}`), line)
    }
  })
})
