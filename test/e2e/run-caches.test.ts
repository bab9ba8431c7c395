import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import { until } from '../support/condition.ts'
import { type HeldRun, mustClaim, wholeRun } from '../support/run-by-hand.ts'
import { archiveOf, getBytes, put } from '../support/run-files.ts'
import { createClient, type Service, startService } from '../support/service.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

const kib = 1024

let service: Service

before(async () => {
  const env = { SVC_CACHE_MAX: '300KiB', SVC_CACHES_REPOSITORY_MAX: '1000KiB' }
  service = await startService({ env })
})

after(() => service[Symbol.asyncDispose]())

/** Runs something as a run of a branch or tag. */
async function during<T>(
  name: string,
  branch: string,
  work: (run: HeldRun) => Promise<T>,
): Promise<T> {
  const started = await service.admin.post(`/repos/${name}/workflows`, { branch })
  assert.equal(started.status, 202, started.text)
  const run = await mustClaim(service.admin)
  assert.equal(run.plan.runId, started.body.id)
  const result = await work(run)
  await run.report(...wholeRun())
  return result
}

/** A repository with some branches. */
async function site(name: string, ...branches: string[]): Promise<void> {
  for (const branch of ['main', ...branches])
    await pushFiles(service.admin, name, oneStep('true'), { branch })
}

const query = (values: Record<string, string>) => String(new URLSearchParams(values))

function save(run: HeldRun, key: string, text: string, version = 'v1') {
  return put(run, `caches?${query({ key, version })}`, archiveOf('file', text))
}

/** What a run gets for some keys: the text that was saved, and the key. */
async function restore(run: HeldRun, keys: string[], version = 'v1') {
  const parameters = new URLSearchParams({ version })
  for (const key of keys) parameters.append('keys', key)
  const { status, headers, bytes } = await getBytes(run.own, `${run.path}/caches?${parameters}`)
  const lookup = await getBytes(run.own, `${run.path}/caches?${parameters}&lookup=true`)
  assert.deepEqual([lookup.status, lookup.bytes.length], [status, 0])
  assert.equal(lookup.headers.get('svc-cache-key'), headers.get('svc-cache-key'))
  if (status === 204) return undefined
  assert.equal(status, 200)
  return { key: decodeURIComponent(headers.get('svc-cache-key') ?? ''), bytes }
}

async function restored(run: HeldRun, keys: string[], version = 'v1') {
  return (await restore(run, keys, version))?.key
}

test('a run restores what an earlier one of its branch saved', async () => {
  await site('one')
  await during('one', 'main', async (run) => {
    assert.equal(await restore(run, ['npm-é %1']), undefined)
    const saved = await save(run, 'npm-é %1', 'modules')
    assert.deepEqual([saved.status, saved.body.key], [201, 'npm-é %1'])
  })
  await during('one', 'main', async (run) => {
    const found = await restore(run, ['npm-é %1'])
    assert.deepEqual(found, { key: 'npm-é %1', bytes: archiveOf('file', 'modules') })
    const again = await save(run, 'npm-é %1', 'other modules')
    assert.equal(again.status, 200)
    assert.deepEqual((await restore(run, ['npm-é %1']))?.bytes, archiveOf('file', 'modules'))
    assert.equal(await restored(run, ['npm-é %1'], 'v2'), undefined)
  })
})

test('an exact key comes first, then the newest that begins with a key, in the order of the keys', async () => {
  await site('keys')
  await during('keys', 'main', async (run) => {
    for (const key of ['a-1-old', 'a-1', 'a-1-new', 'a_2', 'b-1', 'b%'])
      assert.equal((await save(run, key, key)).status, 201)
    assert.equal(await restored(run, ['a-1']), 'a-1')
    assert.equal(await restored(run, ['a-1-']), 'a-1-new')
    assert.equal(await restored(run, ['none', 'b-', 'a-']), 'b-1')
    assert.equal(await restored(run, ['none', 'a-']), 'a-1-new')
    // Wildcards of SQL are characters like others.
    assert.equal(await restored(run, ['none', 'a__']), undefined)
    assert.equal(await restored(run, ['none', '%']), undefined)
    assert.equal(await restored(run, ['none', 'b%']), 'b%')
    assert.equal(await restored(run, ['A-1']), undefined)
    for (const keys of [[''], ['a,b'], ['x'.repeat(513)], Array(11).fill('a')]) {
      const parameters = new URLSearchParams({ version: 'v1' })
      for (const key of keys) parameters.append('keys', key)
      assert.equal((await run.own.get(`${run.path}/caches?${parameters}`)).status, 400)
    }
  })
})

test('a branch or tag reads its own caches and those of the default branch, and no other', async () => {
  await site('scopes', 'left', 'right')
  await service.admin.put('/repos/scopes/refs?ref=refs/tags/v1', { target: 'main' })
  await during('scopes', 'main', (run) => save(run, 'main', 'of main'))
  await during('scopes', 'left', (run) => save(run, 'left', 'of left'))
  await during('scopes', 'refs/tags/v1', (run) => save(run, 'tag', 'of the tag'))
  const reach: Record<string, (string | undefined)[]> = {}
  for (const branch of ['main', 'left', 'right', 'refs/tags/v1']) {
    reach[branch] = await during('scopes', branch, (run) =>
      Promise.all(['main', 'left', 'tag'].map((key) => restored(run, [key]))),
    )
  }
  assert.deepEqual(reach, {
    main: ['main', undefined, undefined],
    left: ['main', 'left', undefined],
    right: ['main', undefined, undefined],
    'refs/tags/v1': ['main', undefined, 'tag'],
  })
  await site('elsewhere')
  assert.equal(await during('elsewhere', 'main', (run) => restored(run, ['main'])), undefined)
  // What the branch has itself comes before what the default branch has.
  await during('scopes', 'left', (run) => save(run, 'main-of-left', 'x'))
  assert.equal(await during('scopes', 'left', (run) => restored(run, ['main'])), 'main-of-left')
})

const lists = async (name: string) =>
  (await service.admin.get(`/repos/${name}/caches`)).body.map(
    ({ key, ref, protected: isProtected }: { key: string; ref: string; protected: boolean }) => [
      key,
      ref.replace('refs/heads/', ''),
      isProtected,
    ],
  )

const protect = (name: string, path: string) =>
  service.admin.put(`/repos/${name}/protections/${path}`)

test('a protected branch gets nothing that an unprotected one has saved, even as the default', async () => {
  await site('guarded', 'release', 'trap')
  await protect('guarded', 'branches/release')
  // An unprotected default branch.
  await during('guarded', 'main', (run) => save(run, 'deps', 'by anybody'))
  assert.equal(await during('guarded', 'release', (run) => restored(run, ['deps'])), undefined)
  await during('guarded', 'release', (run) => save(run, 'deps', 'trusted'))
  assert.deepEqual(await lists('guarded'), [
    ['deps', 'main', false],
    ['deps', 'release', true],
  ])
  assert.equal(await during('guarded', 'release', (run) => restored(run, ['deps'])), 'deps')
  // A trap that waits for a branch to become the default one.
  await during('guarded', 'trap', (run) => save(run, 'deps-2', 'trap'))
  await service.admin.patch('/repos/guarded', { defaultBranch: 'trap' })
  assert.equal(await during('guarded', 'release', (run) => restored(run, ['deps-2'])), undefined)
  assert.equal(await during('guarded', 'main', (run) => restored(run, ['deps-2'])), 'deps-2')
  // Others do read what a protected default branch has saved.
  await service.admin.patch('/repos/guarded', { defaultBranch: 'release' })
  await during('guarded', 'release', (run) => save(run, 'good', 'good'))
  assert.equal(await during('guarded', 'main', (run) => restored(run, ['good'])), 'good')
})

test('a branch that becomes protected gets nothing from before, and nothing from runs of before', async () => {
  await site('later', 'dev')
  await during('later', 'dev', (run) => save(run, 'deps', 'from before'))
  await during('later', 'dev', async (run) => {
    await protect('later', 'branches/dev')
    assert.equal(await restored(run, ['deps']), undefined)
    // Of the same key, so that it is in the way of nothing.
    assert.equal((await save(run, 'deps-2', 'late')).status, 201)
  })
  assert.deepEqual(await lists('later'), [
    ['deps', 'dev', false],
    ['deps-2', 'dev', false],
  ])
  await during('later', 'dev', async (run) => {
    assert.equal(await restored(run, ['deps']), undefined)
    assert.equal((await save(run, 'deps', 'trusted')).status, 201)
    assert.deepEqual((await restore(run, ['deps']))?.bytes, archiveOf('file', 'trusted'))
  })
  // A rerun of the run from before is still one from before.
  const [, first] = (await service.admin.get('/repos/later/workflows')).body.toReversed()
  await service.admin.post(`/repos/later/workflows/${first.id}/rerun`, {})
  const again = await mustClaim(service.admin)
  assert.equal((await save(again, 'deps-3', 'rerun')).status, 201)
  await again.report(...wholeRun())
  assert.deepEqual((await lists('later')).at(-1), ['deps-3', 'dev', false])
})

test('a commit that a protected branch has not, saves nothing for it', async () => {
  await site('replaced', 'dev')
  const good = (await service.admin.get('/repos/replaced/branches')).body.find(
    ({ name }: { name: string }) => name === 'dev',
  ).commit.id
  const evil = await pushFiles(service.admin, 'replaced', { evil: '' }, { branch: 'dev' })
  await protect('replaced', 'branches/dev')
  const { body } = await service.admin.post('/repos/replaced/workflows', { branch: 'dev' })
  const forced = await service.admin.put('/repos/replaced/refs?ref=refs/heads/dev', {
    target: good,
    force: true,
  })
  assert.equal(forced.status, 200, forced.text)
  const run = await mustClaim(service.admin)
  assert.deepEqual([run.plan.runId, run.plan.commit], [body.id, evil])
  assert.equal((await save(run, 'deps', 'evil')).status, 201)
  await run.report(...wholeRun())
  assert.deepEqual(await lists('replaced'), [['deps', 'dev', false]])
  assert.equal(await during('replaced', 'dev', (next) => restored(next, ['deps'])), undefined)
})

test('the same holds for tags and patterns', async () => {
  await site('tagged')
  const tag = async (name: string) =>
    assert.ok(
      (await service.admin.put(`/repos/tagged/refs?ref=refs/tags/${name}`, { target: 'main' }))
        .status < 300,
    )
  await tag('v1')
  await tag('x1')
  await during('tagged', 'refs/tags/v1', (run) => save(run, 'deps', 'anybody'))
  await protect('tagged', 'tags/v*')
  await during('tagged', 'main', (run) => save(run, 'deps', 'anybody'))
  const read = (run: HeldRun) => restored(run, ['deps'])
  assert.equal(await during('tagged', 'refs/tags/v1', read), undefined)
  assert.equal(await during('tagged', 'refs/tags/x1', read), 'deps')
  await during('tagged', 'refs/tags/v1', (run) => save(run, 'deps', 'trusted'))
  assert.equal(await during('tagged', 'refs/tags/v1', read), 'deps')
})

test('a deleted branch loses its caches before a new one of its name has a run', async () => {
  await site('renewed', 'topic', 'other')
  await during('renewed', 'topic', (run) => save(run, 'deps', 'of the former'))
  await during('renewed', 'other', (run) => save(run, 'deps', 'other'))
  const remaining = await during('renewed', 'topic', async (run) => {
    await service.admin.delete('/repos/renewed/refs?ref=refs/heads/topic')
    const late = await save(run, 'deps-2', 'late')
    assert.deepEqual([late.status, late.body.code], [422, 'ref_not_found'])
    await until('the caches are gone', async () => (await lists('renewed')).length === 1)
    return lists('renewed')
  })
  assert.deepEqual(remaining, [['deps', 'other', false]])
  await pushFiles(service.admin, 'renewed', oneStep('true'), { branch: 'topic' })
  assert.equal(await during('renewed', 'topic', (run) => restored(run, ['deps'])), undefined)
})

test('of too many caches, those that were not used for longest go', async () => {
  await site('full')
  const large = (run: HeldRun, key: string) =>
    put(run, `caches?${query({ key, version: 'v1' })}`, randomBytes(280 * kib))
  await during('full', 'main', async (run) => {
    for (const key of ['a', 'b', 'c']) assert.equal((await large(run, key)).status, 201)
    const tooLarge = await put(
      run,
      `caches?${query({ key: 'x', version: 'v1' })}`,
      randomBytes(301 * kib),
    )
    assert.deepEqual([tooLarge.status, tooLarge.body.code], [413, 'body_too_large'])
    assert.equal((await large(run, 'd')).status, 201)
    assert.deepEqual(
      (await lists('full')).map(([key]: string[]) => key),
      ['b', 'c', 'd'],
    )
  })
})

test('caches are listed and deleted with the rights of runs', async () => {
  await site('managed')
  await during('managed', 'main', async (run) => {
    for (const key of ['a', 'b', 'c']) await save(run, key, key)
  })
  const reader = await service.client({ username: 'reader', permissions: ['workflow:read'] })
  await service.admin.post('/repos/managed/collaborators', { username: 'reader', role: 'read' })
  const path = '/repos/managed/caches'
  const [first] = (await reader.get(path)).body
  assert.equal((await reader.delete(`${path}/${first.id}`)).status, 403)
  assert.equal((await reader.delete(path)).status, 403)
  const { admin } = service
  assert.equal((await admin.delete(`${path}/${first.id}`)).status, 204)
  assert.equal((await admin.delete(`${path}/${first.id}`)).body.code, 'cache_not_found')
  assert.deepEqual((await admin.delete(`${path}?key=b`)).body, { deleted: 1 })
  assert.deepEqual((await admin.delete(`${path}?key=b`)).body, { deleted: 0 })
  const [entry] = (await admin.get('/audit?limit=1')).body
  assert.deepEqual([entry.action, entry.data], ['cache.deleted', { key: 'b', ref: null, count: 1 }])
  await site('foreign')
  const [{ id }] = (await admin.get(path)).body
  assert.equal((await admin.delete(`/repos/foreign/caches/${id}`)).body.code, 'cache_not_found')
  assert.deepEqual((await admin.delete(path)).body, { deleted: 1 })
  assert.deepEqual((await admin.get(path)).body, [])
  assert.equal(await during('managed', 'main', (run) => restored(run, ['c'])), undefined)
})

test('a token for some refs deletes only what belongs to them', async () => {
  const { admin } = service
  await site('shared', 'agents/one')
  const saveFiles = async (run: HeldRun) => {
    await save(run, 'key', 'text')
    await put(run, 'artifacts?name=a', archiveOf('a', 'a'))
    return `/repos/shared/workflows/${run.plan.runId}/artifacts/a`
  }
  const ofMain = await during('shared', 'main', saveFiles)
  const ofAgents = await during('shared', 'agents/one', saveFiles)
  const wanted = { name: 'agent', username: 'admin', permissions: ['workflow:trigger'] }
  const { body } = await admin.post('/tokens', { ...wanted, refs: ['refs/heads/agents/*'] })
  const agent = createClient(service.url, body.token)
  const path = '/repos/shared/caches'
  const idOf = async (ref: string) =>
    (await admin.get(path)).body.find((cache: { ref: string }) => cache.ref === ref)?.id
  const main = await idOf('refs/heads/main')
  for (const where of [path, `${path}?key=key`, `${path}?ref=refs/heads/main`, `${path}/${main}`]) {
    const refused = await agent.delete(where)
    assert.deepEqual([refused.status, refused.body.code], [403, 'token_limited'], where)
  }
  assert.equal((await agent.delete(ofMain)).body.code, 'token_limited')
  assert.equal((await admin.get(path)).body.length, 2)
  const own = await agent.delete(`${path}?ref=refs/heads/agents/one`)
  assert.deepEqual(own.body, { deleted: 1 })
  assert.equal((await agent.delete(ofAgents)).status, 204)
  assert.equal(await idOf('refs/heads/main'), main)
})
