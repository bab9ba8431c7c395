// Tags: each-store

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { newTokenString } from '#base/token-string.ts'
import { until } from '../support/condition.ts'
import { newAwsKey, newCredentials, newPem } from '../support/credentials.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, git, type Project, spawnGit, temporaryFolder } from '../support/git.ts'
import { isShared, onlyLocal } from '../support/kind-of-store.ts'
import { without } from '../support/programs.ts'
import { type Client, type Service, startService, startServiceWithSsh } from '../support/service.ts'
import { createSshUser, type Ended, type SshUser, toEnded } from '../support/ssh-user.ts'

let service: Service
let client: Client
let user: SshUser

before(async () => {
  service = await startServiceWithSsh({ env: { SVC_IMPORT_LOCAL_ROOTS: tmpdir() } })
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

/** A new repository and a project to push to it. */
async function newSite(name: string) {
  await client.post('/repos', { name })
  const project = await createProject()
  const remote = client.remote(name)
  const push = (...args: string[]) => tryGit(project, 'push', remote, ...args)
  return {
    ...project,
    remote,
    push,
    async accepted(...args: string[]): Promise<Ended> {
      const ended = await push(...args)
      assert.equal(ended.exitCode, 0, ended.stderr)
      return ended
    },
    async refused(...args: string[]): Promise<Ended> {
      const before = await project.git('ls-remote', remote)
      const ended = await push(...args)
      assert.notEqual(ended.exitCode, 0, 'the push was accepted')
      assert.match(ended.stderr, /This push contains /)
      assert.equal(await project.git('ls-remote', remote), before)
      return ended
    },
  }
}

/** Makes a tree of 300 entries of the same object; the tree's id. */
async function treeOf({ path }: Project, object: string): Promise<string> {
  const child = spawnGit(path, ['mktree'])
  child.stdin.end(Array.from({ length: 300 }, (_, index) => `${object}\t${index}\n`).join(''))
  return (await text(child.stdout)).trim()
}

const short = (id: string) => id.slice(0, 12)

describe('what is scanned', () => {
  test('every kind of credential, each with its place', async () => {
    await using site = await newSite('kinds')
    const kinds = Object.keys(newCredentials)
    for (const [number, kind] of kinds.entries()) {
      await writeFile(join(site.path, `${number}.txt`), `\n${newCredentials[kind]?.()}\n`)
    }
    await site.git('add', '.')
    await site.git('commit', '--quiet', '-m', 'Add all')
    const { stderr } = await site.refused('main')
    for (const [number, kind] of kinds.entries()) {
      assert.match(
        stderr,
        new RegExp(`  ${kind}.* \\(finding \\w+\\)\\s+remote:     ${number}\\.txt:`),
      )
    }
    assert.match(stderr, new RegExp(`contains ${kinds.length} credentials`))
  })

  test('a live token is named as such, and is none after its deletion', async () => {
    await using site = await newSite('live')
    const { body } = await service.admin.post('/tokens', { name: 'leaked' })
    await site.commit('.env', `TOKEN=${body.token}`)
    assert.match((await site.refused('main')).stderr, /svc token, which is live \(finding/)
    await service.admin.delete(`/tokens/${body.id}`)
    assert.match((await site.refused('main')).stderr, /svc token, which is not live \(finding/)
  })

  test('a file that a later commit deletes: it is in the history', async () => {
    await using site = await newSite('deleted')
    const leak = await site.commit('key.pem', newPem())
    await site.git('rm', '--quiet', 'key.pem')
    await site.git('commit', '--quiet', '-m', 'Remove the key')
    const { stderr } = await site.refused('main')
    assert.ok(stderr.includes(`key.pem:1 in commit ${short(leak)} of refs/heads/main`), stderr)
  })

  test('commits with forged times, of which each has the credential from another one', async () => {
    await using site = await newSite('forged')
    await site.accepted('main')
    const token = newTokenString()
    const leak = await site.commit('one', token)
    await site.git('branch', 'first')
    const env = { GIT_COMMITTER_DATE: '2001-01-01T00:00:00Z' }
    const commit = (...args: string[]) =>
      git(site.path, ['commit', '--quiet', '--all', '-m', 'Move', ...args], env)
    await site.git('mv', 'one', 'two')
    await writeFile(join(site.path, 'two'), `${token}\n`)
    await commit()
    await site.git('mv', 'two', 'one')
    await writeFile(join(site.path, 'one'), token)
    await commit()
    const { stderr } = await site.refused('main', 'first')
    assert.ok(stderr.includes(`one:1 in commit ${short(leak)}`), stderr)
    assert.equal(idsIn({ stderr } as Ended).length, 1)
  })

  test('messages of commits and tags', async () => {
    await using site = await newSite('messages')
    await site.accepted('main')
    const token = newTokenString()
    await site.git('commit', '--quiet', '--allow-empty', '-m', 'Deploy', '-m', `with ${token}`)
    const commit = await site.git('rev-parse', 'HEAD')
    const { stderr } = await site.refused('main')
    assert.ok(stderr.includes(`line 3 of the commit ${short(commit)} of refs/heads/main`), stderr)
    await site.git('reset', '--quiet', '--hard', 'HEAD~')
    await site.git('tag', '-a', '-m', `Release ${token}`, 'v1')
    const tag = await site.git('rev-parse', 'v1')
    const { stderr: ofTag } = await site.refused('v1')
    assert.ok(ofTag.includes(`line 1 of the tag ${short(tag)} of refs/tags/v1`), ofTag)
  })

  test('UTF-16, UTF-32, CRLF and binary files', async () => {
    await using site = await newSite('encodings')
    const text = `\ufeffline\r\nTOKEN=${newTokenString()}\r\n`
    await writeFile(join(site.path, 'wide.txt'), Buffer.from(text, 'utf16le'))
    await writeFile(join(site.path, 'wider.txt'), Buffer.from([...text].join('\0'), 'utf16le'))
    await writeFile(join(site.path, 'crlf.txt'), text)
    const zeros = Buffer.concat([randomBytes(64), Buffer.from(`\0${newTokenString()}\0`)])
    await writeFile(join(site.path, 'data.bin'), zeros)
    await site.git('add', '.')
    await site.git('commit', '--quiet', '-m', 'Add all')
    const { stderr } = await site.refused('main')
    for (const place of ['wide.txt:2', 'wider.txt:2', 'crlf.txt:2', 'data.bin:'])
      assert.ok(stderr.includes(place))
  })

  test('odd file names are escaped', async () => {
    await using site = await newSite('names')
    const name = '\u001b[2J\u202egnp\n  svc token (finding 000000000000)'
    await site.commit(name, newTokenString())
    const { stderr } = await site.refused('main')
    assert.match(stderr, /\?\[2J\?gnp\? {2}svc token \(finding 000000000000\):1 in commit/)
    assert.doesNotMatch(stderr, /\u202e|\u001b\[2J/)
  })

  test('an object that no commit has, and files that a tag points to', async () => {
    await using site = await newSite('blobs')
    await site.accepted('main')
    await writeFile(join(site.path, 'note'), newTokenString())
    const blob = await site.git('hash-object', '-w', 'note')
    await site.git('tag', 'blob', blob)
    const { stderr } = await site.refused('blob')
    assert.ok(stderr.includes(`object ${short(blob)} of refs/tags/blob`), stderr)
  })

  test('one of many refs', async () => {
    await using site = await newSite('many')
    await site.accepted('main')
    for (let number = 0; number < 30; number++) await site.git('branch', `b${number}`)
    await site.git('switch', '--quiet', 'b17')
    const commit = await site.commit('x', newTokenString())
    const { stderr } = await site.refused('--all')
    assert.ok(stderr.includes(`x:1 in commit ${short(commit)} of refs/heads/b17`), stderr)
  })

  test('one file in very many folders, without a wait for others', async () => {
    await using site = await newSite('folders')
    await writeFile(join(site.path, 'leak'), newTokenString())
    const blob = await site.git('hash-object', '-w', 'leak')
    const folder = await treeOf(site, `100644 blob ${blob}`)
    const root = await treeOf(site, `040000 tree ${folder}`)
    const commit = await site.git('commit-tree', '-m', 'Add folders', root)
    const refused = site.refused(`${commit}:refs/heads/main`)
    let answers = 0
    for (let isEnd = false; !isEnd; answers++) {
      await client.get('/health')
      isEnd = await Promise.race([refused.then(() => true), setTimeout(1, false)])
    }
    assert.match((await refused).stderr, /This push contains 1000 credentials\./)
    assert.ok(answers > 5, `${answers} requests were answered meanwhile`)
  })

  test(
    'a push too large for memory, with git processes; large files are not scanned',
    exhaustive,
    async () => {
      await using site = await newSite('large')
      await mkdir(join(site.path, 'files'))
      for (let number = 0; number < 20; number++) {
        await writeFile(join(site.path, `files/${number}`), randomBytes(50_000))
      }
      await site.git('add', '.')
      await site.git('commit', '--quiet', '-m', 'Add files')
      const huge = Buffer.concat([
        Buffer.alloc(5 * 1024 * 1024, 'x'),
        Buffer.from(newTokenString()),
      ])
      await writeFile(join(site.path, 'huge'), huge)
      await site.git('add', '.')
      await site.git('commit', '--quiet', '-m', 'Add a huge file')
      const leak = await site.commit('leak', `\n\n${newTokenString()}`)
      const { stderr } = await site.refused('main')
      assert.ok(stderr.includes(`leak:3 in commit ${short(leak)}`), stderr)
      assert.deepEqual(idsIn({ stderr } as Ended).length, 1)
      await site.git('reset', '--quiet', '--hard', 'HEAD~')
      const { stderr: warned } = await site.accepted('main')
      assert.match(warned, /warning: The leak guard scans no file over 5 MiB; this push has 1\./)
    },
  )
})

describe('what is not new', () => {
  test('a credential in the history does not block a push that touches its file', async () => {
    await using site = await newSite('history')
    const token = newTokenString()
    await site.commit('config', `a\n${token}\n`)
    const [id] = idsIn(await site.refused('main'))
    await site.accepted('-o', `leak.allow=${id}`, 'main')
    await site.commit('config', `a\nb\n${token}\nc\n`)
    await site.accepted('main')
    await site.git('mv', 'config', 'moved')
    await writeFile(join(site.path, 'moved'), `${token}\nd\n`)
    await site.git('commit', '--quiet', '-am', 'Move it')
    await site.accepted('main')
    await site.git('switch', '--quiet', '-c', 'side', 'HEAD~2')
    await site.commit('config', `${token}\nside\n`)
    await site.commit('other', 'other')
    await site.git('switch', '--quiet', 'main')
    await site.git('merge', '--quiet', '--no-edit', '-X', 'theirs', 'side')
    await site.accepted('main', 'side')
    // Another credential beside it, and the same one in another place, are new.
    await site.commit('moved', `${token}\n${newTokenString()}\n`)
    const refused = await site.refused('main')
    assert.equal(idsIn(refused).length, 1)
    await site.git('reset', '--quiet', '--hard', 'HEAD~')
    await site.commit('copy', token)
    assert.equal(idsIn(await site.refused('main')).length, 1)
  })

  test('pushing a commit to another ref, and restoring an old file, scan nothing', async () => {
    await using site = await newSite('again')
    await site.commit('config', newTokenString())
    const [id] = idsIn(await site.refused('main'))
    await site.accepted('-o', `leak.allow=${id}`, 'main')
    await site.accepted('main:refs/heads/other', 'main:refs/tags/v1')
    await site.git('rm', '--quiet', 'config')
    await site.git('commit', '--quiet', '-m', 'Remove')
    await site.accepted('main')
    await site.git('revert', '--no-edit', 'HEAD')
    await site.accepted('main')
  })

  test('a merge that brings a credential from elsewhere is new', async () => {
    await using site = await newSite('merge')
    await site.accepted('main')
    await site.git('switch', '--quiet', '-c', 'side')
    const leak = await site.commit('leak', newTokenString())
    await site.git('switch', '--quiet', 'main')
    await site.commit('other')
    await site.git('merge', '--quiet', '--no-edit', 'side')
    const { stderr } = await site.refused('main')
    assert.ok(stderr.includes(`leak:1 in commit ${short(leak)}`), stderr)
    assert.equal(idsIn({ stderr } as Ended).length, 1)
  })

  test('an import and an undo are not scanned', async () => {
    await using site = await newSite('undone')
    await site.commit('leak', newTokenString())
    const [id] = idsIn(await site.refused('main'))
    await site.accepted('-o', `leak.allow=${id}`, 'main')
    await site.git('commit', '--quiet', '--amend', '-m', 'Other')
    await site.accepted('--force', 'main')
    const { body } = await client.get('/repos/undone/pushes')
    const undone = await client.post(`/repos/undone/pushes/${body[0].id}/undo`)
    assert.equal(undone.status, 200, undone.text)
    const imported = await client.post('/repos/import', { source: site.path, name: 'imported' })
    assert.equal(imported.status, 201, imported.text)
  })
})

describe('the way out', () => {
  test('each finding needs its id; other ids have no effect, and are named', async () => {
    await using site = await newSite('ids')
    const { id: keyId, secret } = newAwsKey()
    await site.commit('one', newTokenString())
    await site.commit('two', `${keyId}\n${secret}\n`)
    const [one = '', two = ''] = idsIn(await site.refused('main')).sort()
    assert.notEqual(one, two)
    const rest = await site.refused('-o', `leak.allow=${one}`, 'main')
    assert.deepEqual(idsIn(rest), [two])
    assert.ok(rest.stderr.includes(`git push -o leak.allow=${one} -o leak.allow=${two}`))
    const options = [one, two, '0123456789ab', two].flatMap((id) => ['-o', `leak.allow=${id}`])
    const { stderr } = await site.accepted(...options, '-o', 'ci.else', 'main')
    assert.match(stderr, /leak\.allow=0123456789ab has no effect/)
    assert.match(stderr, /The push option "ci\.else" has no effect/)
    const [event] = await eventsOf('ids', 'push.leak_allowed')
    assert.deepEqual(event.data.findings.map(({ id }: { id: string }) => id).sort(), [one, two])
    assert.equal(event.actor.username, 'ada')
    assert.ok(!JSON.stringify(event).includes(secret))
  })

  test('an id is for one repository and one path', async () => {
    await using site = await newSite('first')
    await using other = await newSite('second')
    const token = newTokenString()
    await site.commit('a', token)
    await other.commit('a', token)
    await other.commit('b', `${token}\n`)
    const [id] = idsIn(await site.refused('main'))
    const ids = idsIn(await other.refused('main'))
    assert.equal(new Set([id, ...ids]).size, 3)
    assert.equal(idsIn(await other.refused('-o', `leak.allow=${id}`, 'main')).length, 2)
  })

  test('maintainers can switch it off for a repository, writers cannot', async () => {
    await using site = await newSite('switched')
    assert.equal((await client.get('/repos/switched')).body.leakGuard, true)
    const grace = await service.client({
      username: 'grace',
      permissions: ['repo:read', 'repo:write'],
    })
    const setRole = (role: string) =>
      service.admin.post('/repos/switched/collaborators', { username: 'grace', role })
    await setRole('write')
    const refused = await grace.patch('/repos/switched', { leakGuard: false })
    assert.deepEqual([refused.status, refused.body.code], [403, 'owner_required'])
    await site.commit('leak', newTokenString())
    await site.refused('main')
    await setRole('maintain')
    const off = await grace.patch('/repos/switched', { leakGuard: false })
    assert.deepEqual([off.status, off.body.leakGuard], [200, false])
    const { body: list } = await client.get('/repos')
    const found = list.find(({ name }: { name: string }) => name === 'switched')
    assert.equal(found.leakGuard, false)
    await site.accepted('main')
    assert.equal((await client.patch('/repos/switched', { leakGuard: true })).status, 200)
    await site.commit('leak', newTokenString())
    await site.refused('main')
    const events = await eventsOf('switched', 'repository.leak_guard')
    assert.deepEqual(
      events.map(({ data }: { data: unknown }) => data),
      [{ enabled: false }, { enabled: true }],
    )
  })
})

test('a server that is killed before it finalizes an allowed push publishes the event later', {
  ...exhaustive,
  skip: onlyLocal,
}, async () => {
  await using folder = await temporaryFolder()
  const start = (env: Record<string, string> = {}) =>
    startService({
      dataDir: join(folder.path, 'data'),
      env: { SVC_ADMIN_TOKEN: service.adminToken, ...env },
    })
  await using project = await createProject()
  await project.commit('leak', newTokenString())
  let id: string | undefined
  {
    await using first = await start({ SVC_FAULT_POINT: 'push.moved' })
    await first.admin.post('/repos', { name: 'site' })
    const push = ['push', first.admin.remote('site'), 'main']
    id = idsIn(await tryGit(project, ...push))[0]
    await tryGit(project, ...push, '-o', `leak.allow=${id}`)
    await until('it was killed', () => first.hasEnded())
  }
  await using second = await start()
  let found: string[] = []
  await until('the event is published', async () => {
    const { body } = await second.admin.get('/events?kind=push.leak_allowed')
    found = body.flatMap(({ data }: LeakEvent) => data.findings.map((finding) => finding.id))
    return found.length > 0
  })
  assert.deepEqual(found, [id])
  // The key of the ids is durable.
  await second.admin.patch('/repos/site', { name: 'former' })
  await project.commit('leak', newTokenString())
  const again = async () =>
    idsIn(await tryGit(project, 'push', second.admin.remote('former'), 'main'))
  assert.deepEqual(await again(), await again())
})

type LeakEvent = { data: { findings: { id: string }[] } }

test('with PostgreSQL: refused, allowed, and an event', {
  ...exhaustive,
  skip: isShared || without('postgres'),
}, async () => {
  const { url, drop } = await createPostgresDatabase()
  try {
    await using other = await startServiceWithSsh({ env: { SVC_DATABASE_URL: url } })
    await other.admin.post('/repos', { name: 'site' })
    await using project = await createProject()
    await project.commit('leak', newTokenString())
    const push = (...args: string[]) =>
      tryGit(project, 'push', ...args, other.admin.remote('site'), 'main')
    const [id] = idsIn(await push())
    const allowed = await push('-o', `leak.allow=${id}`)
    assert.equal(allowed.exitCode, 0, allowed.stderr)
    const { body } = await other.admin.get('/events?kind=push.leak_allowed')
    assert.deepEqual(
      body.map(({ data }: LeakEvent) => data.findings[0]?.id),
      [id],
    )
    const off = await other.admin.patch('/repos/site', { leakGuard: false })
    assert.equal(off.body.leakGuard, false)
  } finally {
    await drop()
  }
})
