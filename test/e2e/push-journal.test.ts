import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, test } from 'node:test'
import { newId } from '#base/ids.ts'
import { flushPacket, packet } from '#git/protocol/pkt-line.ts'
import { insertPush } from '#git-server/pushes/push-store.ts'
import { createBackupSite } from '../support/backup-site.ts'
import { assertWhole, refsOf } from '../support/backups.ts'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, git, type Project } from '../support/git.ts'
import { type InProcess, startInProcess } from '../support/in-process.ts'
import { without } from '../support/programs.ts'
import { openPushRecords } from '../support/push-records.ts'
import { finishedPushes, type ListedPush } from '../support/pushes.ts'
import { deletionBody, pushBody, usualPushBody } from '../support/raw-git.ts'
import type { Client } from '../support/service.ts'
import { startSshSite } from '../support/ssh-site.ts'

const none = '0'.repeat(40)

let service: InProcess
let project: Project
let owner: Client

before(async () => {
  service = await startInProcess()
  project = await createProject()
  owner = await service.client({ username: 'ada', permissions: ['repo:read', 'repo:write'] })
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

async function push(name: string, ...refs: string[]): Promise<ListedPush> {
  await project.git('push', '--quiet', owner.remote(name), ...refs)
  const [last] = await finishedPushes(service, owner, name)
  return last ?? assert.fail('no push is in the journal')
}

test('the journal shows who changed which refs, when, from what to what, and whether by force', async () => {
  await owner.post('/repos', { name: 'site' })
  const first = await project.git('rev-parse', 'main')
  const created = await push('site', 'main:main', 'main:refs/tags/v1')
  assert.deepEqual(created.actor, { id: owner.id, username: 'ada' })
  assert.deepEqual([created.repoName, created.via, created.undoes], ['site', 'http', null])
  assert.ok(created.pushedAt <= created.finishedAt)
  const plain = { forced: false, created: false, deleted: false }
  assert.deepEqual(created.refs, [
    { ref: 'refs/heads/main', before: none, after: first, ...plain, created: true },
    { ref: 'refs/tags/v1', before: none, after: first, ...plain, created: true },
  ])
  assert.equal(created.keptUntil, null)
  const recorded = await service.db
    .selectFrom('events')
    .select('data')
    .where('kind', '=', 'push')
    .execute()
  assert.deepEqual(
    recorded.map(({ data }) => JSON.parse(data)).map(({ pushId, via }) => [pushId, via]),
    [
      [created.id, 'http'],
      [created.id, 'http'],
    ],
  )

  const second = await project.commit('b.txt')
  const forwarded = await push('site', 'main:main')
  assert.deepEqual(forwarded.refs, [
    { ref: 'refs/heads/main', before: first, after: second, ...plain },
  ])
  assert.equal(forwarded.keptUntil, null)

  const startedAt = Date.now()
  const rewritten = await push('site', `+${first}:main`)
  assert.deepEqual(rewritten.refs, [
    { ref: 'refs/heads/main', before: second, after: first, ...plain, forced: true },
  ])
  const pushedAt = (rewritten.keptUntil ?? 0) - 30 * 86_400_000
  assert.ok(pushedAt >= startedAt && pushedAt <= Date.now(), String(rewritten.keptUntil))

  const deleted = await push('site', ':refs/tags/v1')
  assert.deepEqual(deleted.refs, [
    { ref: 'refs/tags/v1', before: first, after: none, ...plain, deleted: true },
  ])
  const { body } = await owner.get('/repos/site/pushes')
  assert.deepEqual(
    body.map(({ id }: ListedPush) => id),
    [deleted, rewritten, forwarded, created].map(({ id }) => id),
  )
  const { body: alone } = await owner.get(`/repos/site/pushes/${created.id}`)
  const [last] = body.slice(3)
  assert.deepEqual(alone, { ...last, actor: { ...last.actor, name: 'test' } })
})

test('the journal is paginated, and can be filtered by ref', async () => {
  await owner.post('/repos', { name: 'long' })
  const made: string[] = []
  for (const ref of ['a', 'b', 'A', 'a%', 'ab']) {
    made.unshift((await push('long', `main:refs/heads/${ref}`)).id)
  }
  const ids = async (path: string) => {
    const { body, headers } = await owner.get(path)
    const [, next] = /<(.*)>; rel="next"/.exec(headers.get('link') ?? '') ?? []
    return { ids: body.map(({ id }: ListedPush) => id), next }
  }
  const first = await ids('/repos/long/pushes?limit=2')
  const second = await ids(first.next ?? '')
  const third = await ids(second.next ?? '')
  assert.deepEqual([...first.ids, ...second.ids, ...third.ids], made)
  assert.equal(third.next, undefined)
  const ofRef = async (ref: string) =>
    (await ids(`/repos/long/pushes?ref=${encodeURIComponent(ref)}`)).ids
  assert.deepEqual(await ofRef('refs/heads/a'), [made[4]])
  assert.deepEqual(await ofRef('refs/heads/A'), [made[2]])
  assert.deepEqual(await ofRef('refs/heads/a%'), [made[1]])
  assert.deepEqual(await ofRef('refs/heads'), [])
})

test('the journal is filtered by full ref names, and rejects others with advice', async () => {
  await owner.post('/repos', { name: 'short' })
  const refused = {
    main: 'refs/heads/main',
    'feature/x': 'refs/heads/feature/x',
    'tags/v1': 'refs/tags/v1',
    HEAD: 'refs/heads/main',
    '': 'refs/heads/main',
    'a b': 'refs/heads/main',
    'refs/heads/a..b': 'refs/heads/main',
    'refs/': 'refs/heads/main',
  }
  for (const [ref, meant] of Object.entries(refused)) {
    const { status, body } = await owner.get(`/repos/short/pushes?ref=${encodeURIComponent(ref)}`)
    assert.equal(status, 400, ref)
    const detail = `cannot be "${ref}"; it must be the full name of a ref, such as ${meant}.`
    assert.deepEqual(body.errors, [{ parameter: 'ref', in: 'query', detail }])
  }
})

test('a push of very many refs has a page of its own', async () => {
  await owner.post('/repos', { name: 'wide' })
  const small = await push('wide', 'main:main')
  const row = await service.db
    .selectFrom('pushes')
    .selectAll()
    .where('id', '=', small.id)
    .executeTakeFirstOrThrow()
  const updates = Array.from({ length: 1800 }, (_, number) => {
    return { ref: `refs/heads/wide/${number}`, before: none, after: '1'.repeat(40), forced: false }
  })
  const wide = [newId(), newId()]
  for (const id of wide)
    await insertPush(service.db, { ...row, id, updates: JSON.stringify(updates) })
  const pages: string[][] = []
  for (let next: string | undefined = '/repos/wide/pushes'; next !== undefined; ) {
    const { body, headers } = await owner.get(next)
    pages.push(body.map(({ id }: ListedPush) => id))
    next = /<(.*)>; rel="next"/.exec(headers.get('link') ?? '')?.[1]
  }
  assert.deepEqual(pages, [[wide[1]], [wide[0], small.id]])
})

test('an authorized push that changed nothing is not in the journal', async () => {
  await owner.post('/repos', { name: 'still' })
  const made = await push('still', 'main:main')
  const older = await project.git('rev-parse', 'main~1')
  // They go by what the branch has never been, or is no more; the last one wants what it is already.
  const updates = [
    ['1'.repeat(40), older],
    [none, older],
    [older, made.refs[0]?.after],
  ]
  for (const [from, to] of updates) await sendRefused('still', `${from} ${to} refs/heads/main`)
  const left = await finishedPushes(service, owner, 'still')
  assert.deepEqual(
    left.map(({ id }) => id),
    [made.id],
  )
})

test('of concurrent equal pushes to a ref, one is recorded', exhaustive, async () => {
  await owner.post('/repos', { name: 'same' })
  for (let round = 0; round < 8; round++) {
    const ref = `refs/heads/race-${round}`
    const sent = Array.from({ length: 4 }, () =>
      project.git('push', '--quiet', owner.remote('same'), `main:${ref}`, `main:${ref}-too`),
    )
    // Each may win one of the refs, so that all of them fail.
    await Promise.allSettled(sent)
    const pushes = await finishedPushes(service, owner, 'same')
    const recorded = pushes.flatMap(({ refs }) => refs.map((moved) => moved.ref))
    assert.equal(recorded.filter((name) => name === ref).length, 1)
    assert.equal(recorded.filter((name) => name === `${ref}-too`).length, 1)
    assert.ok(pushes.every(({ refs }) => refs.length > 0))
  }
  const rows = await service.db
    .selectFrom('events')
    .innerJoin('repositories', 'repositories.id', 'events.repositoryId')
    .select('data')
    .where('repositories.name', '=', 'same')
    .where('kind', '=', 'push')
    .execute()
  assert.equal(rows.length, 16)
})

/** Sends a push of one update that git refuses after the service has allowed it. */
async function sendRefused(name: string, update: string): Promise<void> {
  const line = `${update}\0 report-status`
  const pack = Buffer.from('5041434b0000000200000000', 'hex')
  const sum = createHash('sha1').update(pack).digest()
  const answer = await fetch(`${service.url}/repos/${name}.git/git-receive-pack`, {
    method: 'POST',
    headers: {
      authorization: `Basic ${Buffer.from(`git:${owner.token}`).toString('base64')}`,
      'content-type': 'application/x-git-receive-pack-request',
    },
    body: Buffer.concat([packet(line), flushPacket, pack, sum]),
  })
  assert.match(await answer.text(), /ng refs\/heads\/main/)
}

test('overwritten and deleted commits are retained by hidden refs, and survive maintenance', async () => {
  await owner.post('/repos', { name: 'kept' })
  const [base, lost] = [await project.git('rev-parse', 'main'), await project.commit('lost.txt')]
  const [one, two] = ['refs/tags/one', 'refs/tags/two']
  await push('kept', `main:${one}`, `main:${two}`)
  const forced = await push('kept', `+${base}:${one}`, `+${base}:${two}`)
  const deleted = await push('kept', `:${one}`, `:${two}`)
  const { body } = await owner.get('/repos/kept')
  assert.equal(body.empty, true)
  const format = '--format=%(refname)'
  const seen = await git(body.path, ['for-each-ref', '--sort=refname', format])
  assert.deepEqual(
    seen.stdout.split('\n'),
    [`refs/svc/kept/${forced.id}/${lost}`, `refs/svc/kept/${deleted.id}/${base}`].sort(),
  )
  await git(body.path, ['gc', '--quiet', '--prune=now'])
  assert.equal((await owner.get('/repos/kept')).body.empty, true)
  for (const { id } of [deleted, forced]) {
    const { status, text } = await owner.post(`/repos/kept/pushes/${id}/undo`)
    assert.equal(status, 200, text)
  }
  const { stdout } = await git('/', ['ls-remote', owner.remote('kept'), two])
  assert.equal(stdout, `${lost}\t${two}`)
})

test('an annotated tag that is moved or becomes lightweight is retained and can be restored', async () => {
  await owner.post('/repos', { name: 'tags' })
  const first = await project.git('rev-parse', 'main')
  const second = await project.commit('tagged.txt')
  const tag = async (commit: string) => {
    await project.git('tag', '--force', '-a', '-m', 'A release', 'v1', commit)
    return project.git('rev-parse', 'refs/tags/v1')
  }
  const old = await tag(first)
  await push('tags', 'refs/tags/v1')
  const replacements = [await tag(second), first]
  const { body } = await owner.get('/repos/tags')
  for (const value of replacements) {
    const moved = await push('tags', `+${value}:refs/tags/v1`)
    assert.deepEqual([moved.refs[0]?.before, moved.refs[0]?.forced], [old, true])
    assert.ok(moved.keptUntil)
    await git(body.path, ['gc', '--quiet', '--prune=now'])
    const { status, text } = await owner.post(`/repos/tags/pushes/${moved.id}/undo`)
    assert.equal(status, 200, text)
    assert.equal((await git(body.path, ['rev-parse', 'refs/tags/v1'])).stdout, old)
  }
})

test('hidden refs cannot be listed, fetched, pushed to or deleted, over either transport', {
  ...exhaustive,
  skip: without('openssh'),
}, async () => {
  await using site = await startSshSite()
  const { admin } = site.service
  const [base, lost] = [await project.git('rev-parse', 'main'), await project.commit('hidden.txt')]
  await site.git(project.path, ['push', '--quiet', site.remote(), 'main:main'])
  await site.git(project.path, ['push', '--quiet', site.remote(), `+${base}:main`])
  await site.untilNothingIsLeft()
  const { body } = await admin.get('/repos/site/pushes')
  assert.deepEqual(
    body.map(({ via, refs }: ListedPush) => [via, refs[0]?.forced]),
    [
      ['ssh', true],
      ['ssh', false],
    ],
  )
  const hidden = `refs/svc/kept/${body[0].id}/${lost}`
  const { path } = (await admin.get('/repos/site')).body
  assert.equal((await git(path, ['rev-parse', hidden])).stdout, lost)
  const run = (remote: string, ...args: string[]) =>
    remote === site.remote() ? site.git(project.path, args) : git(project.path, args)
  for (const remote of [site.remote(), admin.remote('site')]) {
    for (const version of ['0', '1', '2']) {
      const asked = ['-c', `protocol.version=${version}`]
      const { stdout } = await run(remote, ...asked, 'ls-remote', remote)
      assert.doesNotMatch(stdout, /refs\/svc/)
      const copy = site.newFolder()
      await run(remote, ...asked, 'clone', '--quiet', '--mirror', remote, copy)
      assert.equal(
        (await git(copy, ['for-each-ref', '--format=%(refname)'])).stdout,
        'refs/heads/main',
      )
      await assert.rejects(
        run(remote, ...asked, 'fetch', remote, hidden),
        /couldn't find remote ref/,
      )
    }
    await assert.rejects(run(remote, 'push', remote, `+${base}:${hidden}`), /kept for the service/)
    await assert.rejects(run(remote, 'push', remote, `:${hidden}`), /kept for the service/)
  }
  assert.equal((await git(path, ['rev-parse', hidden])).stdout, lost)
})

test(
  'a backup has the retained commits, and a restored push can be undone',
  exhaustive,
  async () => {
    await using site = await createBackupSite()
    const { admin } = site.service
    const old = await site.project.git('rev-parse', 'main')
    await site.push('page')
    await site.project.git('push', '--quiet', admin.remote('page'), `+${old}:main`)
    using records = openPushRecords(site.service.dataDir)
    await until('the pushes are finished', () => records.unfinished().length === 0)
    const before = await site.refs()
    assert.match(before.join('\n'), /refs\/svc\/kept/)
    await site.backUp()
    await assertWhole(site.backup)
    await site.restored(async (again) => {
      assert.deepEqual(await refsOf(again), before)
      const [forced] = (await again.admin.get('/repos/page/pushes')).body
      const { status, text } = await again.admin.post(`/repos/page/pushes/${forced.id}/undo`)
      assert.equal(status, 200, text)
    })
  },
)

test('of pushes that create and delete one ref at once, those are recorded that git has accepted', async () => {
  await owner.post('/repos', { name: 'contended' })
  await project.git('push', '--quiet', owner.remote('contended'), 'HEAD:main')
  const tip = await project.git('rev-parse', 'HEAD')
  const usual = 'report-status side-band-64k'
  const receiveType = 'application/x-git-receive-pack-request'
  const bodies = [
    await pushBody(project.path, 'x'),
    await usualPushBody(project.path, 'x'),
    deletionBody('x', tip),
    deletionBody('x', tip, usual),
  ]
  const push = async (body: Buffer) => {
    const response = await fetch(`${service.url}/repos/contended.git/git-receive-pack`, {
      method: 'POST',
      headers: { authorization: `Bearer ${owner.token}`, 'content-type': receiveType },
      body: new Uint8Array(body),
    })
    const text = await response.text()
    assert.equal(response.status, 200, text)
    return /ok refs\/heads\/x/.test(text)
  }
  const outcomes = await Promise.all(
    Array.from({ length: 16 }, async () => {
      const accepted: boolean[] = []
      for (const body of bodies) accepted.push(await push(body))
      return accepted
    }),
  )
  const accepted = outcomes.flat().filter((isAccepted) => isAccepted)
  const { body: pushes } = await owner.get('/repos/contended/pushes?limit=1000')
  assert.equal(pushes.length, 1 + accepted.length)
})
