// Tags: exhaustive, each-store
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Permission } from '#access/permissions.ts'
import { until } from '../support/condition.ts'
import { git, temporaryFolder } from '../support/git.ts'
import { onlyLocal } from '../support/kind-of-store.ts'
import { logIn } from '../support/page-client.ts'
import { addressOf, openPageSite, type PageSite, shown } from '../support/page-site.ts'
import { pushFiles } from '../support/workflow-site.ts'

let service: PageSite

const cachedPages = shown.filter(({ isCached }) => isCached)

before(async () => {
  service = await openPageSite()
  await pushFiles(service.admin, 'site', { 'README.md': '# Site\n', 'src/a.ts': 'const a = 1\n' })
  await service.admin.post('/repos/site/collaborators', { username: 'reader', role: 'read' })
})

after(() => service[Symbol.asyncDispose]())

/** The addresses of cached pages: one of each route, and more of those whose parts differ. */
function addressesOf(name: string): string[] {
  const routes = cachedPages.map((page) => addressOf(page, service, name))
  const more = [
    'src/main:src',
    'src/main:src/a.ts',
    `src/${service.values.commit}:.svc`,
    'src/main:README.md',
  ]
  return [...routes, ...more.map((path) => `/r/${name}/${path}`)]
}

const people: Record<string, Permission[]> = {
  admin: ['admin'],
  reader: ['repo:read'],
}

/** Reads pages with a session of its own, so that no rate limits it. */
async function openReader(username: string) {
  const permissions = people[username] ?? []
  const { token } = await service.client({ username, permissions })
  const client = await logIn(service.url, token)
  return async (path: string) => {
    // A folder is shown at once, and with its last commits as soon as they are found.
    const { status, text } = await until('the page is complete', async () => {
      const shown = await client.get(path)
      return !/ data-again=/.test(shown.text) && shown
    })
    const [, main = text] = /<main[^>]*>(.*)<\/main>/s.exec(text) ?? []
    // Ages differ from one moment to the next.
    return { status, text, main: main.replace(/>[^<]*<\/time>/g, '></time>') }
  }
}

let round = 0

type Reader = Awaited<ReturnType<typeof openReader>>

/** The readers of the round before, who have read the same pages: nothing else is checked for them if nothing has changed. */
const readersBefore = new Map<string, Reader[]>()

/** Compares cached pages with new ones, since no other request had their address. */
async function assertCurrent(about: string, name = 'site') {
  round += 1
  for (const username of Object.keys(people)) {
    const open = () => openReader(username)
    const [first, second, anew] = [await open(), await open(), await open()]
    const before = readersBefore.get(username) ?? []
    readersBefore.set(username, [first, second])
    for (const [index, path] of addressesOf(name).entries()) {
      // Each reads half of the pages, so that no rate limits it in the next round.
      const half = index % 2
      const read = half === 0 ? first : second
      const other = username === 'admin' ? 'reader' : 'admin'
      const fresh = await anew(`${path}${path.includes('?') ? '&' : '?'}fresh=${round}`)
      for (const reader of [before[half] ?? read, read]) {
        const { status, text, main } = await reader(path)
        const what = `${path} for ${username} after ${about}`
        assert.equal(status, fresh.status, what)
        assert.equal(main, fresh.main, what)
        assert.ok(!text.includes(`Menu of ${other}`), what)
        if (status === 200) assert.ok(text.includes(`Menu of ${username}`), what)
      }
    }
  }
}

test('no page shows less or more than a new one, after any change', async () => {
  const { admin } = service
  await using folder = await temporaryFolder()
  const run = (...args: string[]) => git(folder.path, args)
  await run('clone', '--quiet', admin.remote('site'), '.')
  const push = (...refs: string[]) => run('push', '--quiet', '--force', 'origin', ...refs)

  await assertCurrent('nothing')
  await pushFiles(admin, 'site', { 'src/b.ts': 'const b = 2\n', 'README.md': '# Other\n' })
  await assertCurrent('a push')
  await push('HEAD:refs/heads/topic', 'HEAD:refs/tags/v1')
  await assertCurrent('a new branch and tag')
  await push('HEAD:refs/heads/main')
  await assertCurrent('a force-push')
  await push(':refs/heads/topic', ':refs/tags/v1')
  await assertCurrent('a deleted branch and tag')
  await admin.patch('/repos/site', { description: 'What it is about' })
  await assertCurrent('a new description')
  await admin.put('/repos/site/protections/branches/main', {})
  await assertCurrent('a protection')
  await admin.post('/repos/site/workflows', {})
  await assertCurrent('a run')
  await admin.patch('/repos/site', { name: 'renamed' })
  await assertCurrent('a rename')
  await assertCurrent('a rename, at the new name', 'renamed')
  await pushFiles(admin, 'site', { 'README.md': '# Another repository\n' })
  await assertCurrent('another repository of the same name')
  await admin.delete('/repos/renamed/collaborators/reader')
  await assertCurrent('a role was taken away', 'renamed')
  await admin.delete('/repos/renamed')
  await assertCurrent('a deletion', 'renamed')
})

test('a page shows a ref that another program has moved', { skip: onlyLocal }, async () => {
  const { admin, dataDir } = service
  await pushFiles(admin, 'moved', { 'README.md': '# First\n' })
  await pushFiles(admin, 'moved', { 'README.md': '# Second\n' })
  const { body } = await admin.get('/repos/moved')
  const path = join(dataDir, 'repositories', body.id.slice(-2), `${body.id}.git`)
  const read = await openReader('admin')
  assert.match((await read('/r/moved')).main, /Second/)
  assert.match((await read('/r/moved')).main, /Second/)
  await git(path, ['update-ref', 'refs/heads/main', 'refs/heads/main~1'])
  assert.match((await read('/r/moved')).main, /First/)
})
