import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { assertAccessibleInEveryView } from '../support/browser.ts'
import { logIn, type PageClient } from '../support/page-client.ts'
import { readPage } from '../support/page-markup.ts'
import { without } from '../support/programs.ts'
import { type Client, type Service, startService } from '../support/service.ts'

let service: Service
let owner: Client
let ada: PageClient
let rita: PageClient

const hostile = '"><script>ran(1)</script>'

before(async () => {
  service = await startService()
  const { admin, url } = service
  owner = await service.client({ username: 'ada', permissions: ['everything'] })
  const reader = await service.client({ username: 'rita', permissions: ['everything'] })
  await owner.post('/repos', { name: 'site' })
  await owner.post('/repos/site/collaborators', { username: 'rita', role: 'read' })
  await commit('main', 'Start', { 'a.txt': 'one\n' })
  await commit('topic', 'Say more\n\nAs **asked**.', { 'a.txt': 'one\ntwo\n' })
  ada = await logIn(url, owner.token)
  rita = await logIn(url, reader.token)
  assert.equal((await admin.get('/repos/site/changes')).body.length, 0)
})

after(() => service[Symbol.asyncDispose]())

/** Commits files to a branch, which is made from `main`. */
async function commit(branch: string, message: string, files: Record<string, string>) {
  const changes = Object.entries(files).map(([path, content]) => ({ path, content }))
  const { body: branches } = await owner.get('/repos/site/branches')
  const isNew = !branches.some(({ name }: { name: string }) => name === branch)
  const start = isNew && branch !== 'main' ? { start: 'main' } : {}
  const made = await owner.post('/repos/site/commits', { branch, message, changes, ...start })
  assert.equal(made.status, 201, made.text)
  return made.body.id
}

async function shown(client: PageClient, path: string): Promise<string> {
  const { status, text } = await client.get(path)
  assert.equal(status, 200, path)
  assert.deepEqual(readPage(text).faults, [], path)
  return text
}

/** The value of a field, as a form of a page has it. */
function fieldValue(text: string, name: string): string | undefined {
  return new RegExp(`name="${name}"[^>]* value="([^"]*)"`).exec(text)?.[1]
}

test('a reader proposes a branch where it is compared, and the owner lands it', async () => {
  assert.match(await shown(rita, '/r/site/changes'), /git push origin HEAD:refs\/for\/main/)
  const compared = await shown(rita, '/r/site/compare/main...topic')
  assert.match(compared, /action="\/r\/site\/changes"/)
  const [source, target, title] = ['source', 'target', 'title'].map((one) =>
    fieldValue(compared, one),
  )
  assert.deepEqual([source, target, title], ['topic', 'main', 'Say more'])
  for (const range of ['topic...main', 'main...main'])
    assert.doesNotMatch(await shown(rita, `/r/site/compare/${range}`), /Propose for/, range)
  const fields = { source: 'topic', target: 'main' }
  const refused = await rita.post('/r/site/changes', { ...fields, target: 'none', title: hostile })
  assert.equal(refused.status, 422)
  assert.match(refused.text, /There is no branch[\s\S]*value="&quot;&gt;&lt;script&gt;/)
  const typed = { ...fields, title: hostile, description: `As **asked**.\r\n\r\n${hostile}` }
  const { location, text } = await rita.post('/r/site/changes', typed)
  assert.equal(location, '/r/site/changes/1', text)
  assert.match(await shown(ada, '/r/site/compare/main...topic'), /Proposed by rita as <a/)
  const query = 'target=main&source='
  for (const [source, count] of Object.entries({ topic: 1, main: 0 })) {
    const { body } = await owner.get(`/repos/site/changes?${query}${source}`)
    assert.equal(body.length, count, source)
  }

  const list = await shown(ada, '/r/site/changes')
  assert.match(list, /href="\/r\/site\/changes\/1">&quot;&gt;&lt;script&gt;[\s\S]*by rita/)
  assert.doesNotMatch(await shown(ada, '/r/site/changes?mine'), /changes\/1"/)
  assert.match(await shown(rita, '/r/site/changes?mine'), /changes\/1"/)

  for (const client of [ada, rita]) {
    const home = await shown(client, '/')
    assert.match(
      home,
      /Waiting for you[\s\S]*href="\/r\/site\/changes\/1">&quot;&gt;&lt;script&gt;/,
    )
    assert.match(await shown(client, '/r/site/changes?waiting'), /changes\/1"/)
  }
  const read = await shown(rita, '/r/site/changes/1')
  assert.match(read, /<strong>asked<\/strong>/)
  assert.match(read, /Your role in this repository is read; this requires write\./)
  assert.match(read, /git fetch origin refs\/changes\/1\/1/)
  assert.match(read, /changes\/1\/abandon/)
  assert.doesNotMatch(read, /changes\/1\/land"/)

  await commit('topic', 'Say even more', { 'b.txt': 'three\n' })
  const edited = { title: 'Say it', description: 'All of it.' }
  assert.equal((await rita.post('/r/site/changes/1/edit', edited)).status, 303)
  const open = await shown(ada, '/r/site/changes/1')
  assert.match(open, /<h1>Say it<\/h1>[\s\S]*2 versions[\s\S]*changes\/1\/files\?from=1/)
  assert.match(open, /<h2>2 commits<\/h2>[\s\S]*Say even more[\s\S]*Say more/)
  const stale = await ada.post('/r/site/changes/1/land', { method: 'squash', version: '1' })
  assert.match(stale.text, /The last version of change 1 is 2, not 1/)
  const landing = {
    method: 'squash',
    version: fieldValue(open, 'version') ?? '',
    message: 'Say\r\n\r\nx',
  }
  const landed = await ada.post('/r/site/changes/1/land', landing)
  assert.equal(landed.location, '/r/site/changes/1', landed.text)
  const { text: done } = await ada.get('/r/site/changes/1')
  assert.match(done, /The change has landed, or is in the queue\./)
  assert.match(done, /Landed by ada[\s\S]*href="\/r\/site\/pushes\//)
  const [last] = (await owner.get('/repos/site/commits')).body
  assert.equal(last.message.trimEnd(), 'Say\n\nx')
  assert.match(await shown(ada, '/r/site/changes?state=landed'), /Say it/)
  assert.doesNotMatch(await shown(ada, '/'), /Waiting for you/)
})

test('files are shown of each version, and what differs between two', async () => {
  const all = await shown(ada, '/r/site/changes/1/files')
  assert.match(all, /Version 2, the last one[\s\S]*a\.txt[\s\S]*b\.txt/)
  const first = await shown(ada, '/r/site/changes/1/files?version=1')
  assert.doesNotMatch(first, /b\.txt/)
  const since = await shown(ada, '/r/site/changes/1/files?version=2&from=1')
  assert.match(since, /b\.txt/)
  assert.doesNotMatch(since, /a\.txt|different bases/)
  assert.match(since, /files\?from=1&amp;version=2&amp;split/)
  for (const query of ['version=3', 'from=x'])
    assert.equal((await ada.get(`/r/site/changes/1/files?${query}`)).status, 404)
})

test('a change is abandoned and opened again by those who may', async () => {
  await commit('other', 'Other', { 'c.txt': 'x\n' })
  const made = { source: 'other', target: 'main' }
  assert.equal((await ada.post('/r/site/changes', made)).location, '/r/site/changes/2')
  assert.doesNotMatch(await shown(rita, '/r/site/changes/2'), /changes\/2\/(?:edit|abandon)/)
  assert.equal((await rita.post('/r/site/changes/2/abandon', {})).status, 403)
  await ada.post('/r/site/changes/2/abandon', {})
  const closed = await shown(ada, '/r/site/changes/2')
  assert.match(closed, /Abandoned by ada/)
  assert.doesNotMatch(closed, /changes\/2\/land"/)
  await ada.post('/r/site/changes/2/reopen', {})
  assert.match(await shown(ada, '/r/site/changes/2'), /The change is open again\.[\s\S]*\/land"/)
})

test('a difference of versions says if their bases differ', async () => {
  await commit('main', 'Aside', { 'aside.txt': 'x\n' })
  const target = await commit('rebased', 'Other', { 'c.txt': 'y\n' })
  const moved = await owner.put('/repos/site/refs?ref=refs/heads/other', { target, force: true })
  assert.equal(moved.status, 200, moved.text)
  const files = '/r/site/changes/2/files?version=2&from=1'
  const text = await shown(ada, files)
  assert.match(
    text,
    /They have different bases\.[\s\S]*Other[\s\S]*changed[\s\S]*class="add"><td>\+y/,
  )
  assert.doesNotMatch(text, /aside\.txt/)
  assert.match(await shown(ada, `${files}&files`), /what others have changed in [\s\S]*aside\.txt/)
  assert.doesNotMatch(await shown(ada, '/r/site/changes/2/files'), /aside\.txt/)
})

test('people talk about a change, and judge it', async () => {
  const at = (path: string) => `/r/site/changes/2/${path}`
  const page = (client: PageClient) => shown(client, '/r/site/changes/2')
  const onLine = { text: 'Here?', path: 'c.txt', line: 1 }
  const { body: first } = await owner.post('/repos/site/changes/2/comments', onLine)
  const empty = await rita.post(at(`comments/${first.id}/reply`), { text: '' })
  assert.equal(empty.status, 400)
  assert.match(empty.text, /<details class="reply" open>/)
  const reply = { text: `No, **there**.\r\n${hostile}` }
  assert.equal((await rita.post(at(`comments/${first.id}/reply`), reply)).status, 303)
  const talk = await page(rita)
  assert.match(
    talk,
    /file=c\.txt&amp;lines=all#f1R1">c\.txt<\/a>, line 1[\s\S]*Here\?[\s\S]*<strong>there<\/strong>/,
  )
  assert.doesNotMatch(talk, /comments\/\w+\/resolve/)
  await rita.post(at('comments'), { text: 'Fine.' })
  assert.match(await page(rita), /Fine\.[\s\S]*comments\/\w+\/resolve/)
  await ada.post(at(`comments/${first.id}/resolve`), {})
  assert.match(await page(ada), /The thread is resolved\.[\s\S]*Resolved by ada/)
  await ada.post(at(`comments/${first.id}/reopen`), {})
  assert.doesNotMatch(await page(ada), /Resolved by ada/)
  assert.doesNotMatch(await page(ada), /value="approve"/)
  assert.match(await page(rita), /value="approve"/)
  const version = fieldValue(await page(rita), 'version') ?? ''
  const given = await rita.post(at('verdict'), { version, verdict: 'request-changes' })
  assert.equal(given.status, 303, given.text)
  assert.match(await page(ada), /<b>rita<\/b> requests changes[\s\S]*does not count/)
  await rita.post(at('verdict'), { version, verdict: 'none' })
  assert.doesNotMatch(await page(ada), /requests changes/)
})

test('people comment on lines and files of a version, and the comments follow their lines', async () => {
  const long = Array.from({ length: 40 }, (_, index) => `line ${index + 1}\n`).join('')
  await commit('lines', 'Lines', { 'a b.txt': long, 'gone.txt': 'x\n' })
  assert.equal((await ada.post('/r/site/changes', { source: 'lines', target: 'main' })).status, 303)
  const files = '/r/site/changes/3/files'
  const sayAt = async (place: string, text: string, more = '') => {
    const address = `${files}?version=1${more}&comment=${encodeURIComponent(place)}`
    const opened = await shown(rita, address)
    const [, action = ''] = /<form method="post" action="([^"]*comments\?[^"]*)"/.exec(opened) ?? []
    const [version = '', side = ''] = ['version', 'side'].map((one) => fieldValue(opened, one))
    const path = action.replaceAll('&amp;', '&')
    return rita.post(path, { version, side, text })
  }
  const all = await shown(rita, files)
  assert.match(all, /comment=a\+b\.txt%3A|comment=a%20b\.txt%3A12" aria-label="Comment on line 12"/)
  const refused = await sayAt('a b.txt:12', '')
  assert.equal(refused.status, 400)
  assert.match(refused.text, /<tr class="said">[\s\S]*role="alert"[\s\S]*>Cancel</)
  const made = await sayAt('a b.txt:12', `At **twelve** ${hostile}`)
  assert.match(made.location ?? '', /^\/r\/site\/changes\/3\/files\?version=1#comment-/, made.text)
  await sayAt('a b.txt:30', 'At thirty')
  await sayAt('gone.txt:', 'On the file')
  assert.equal((await sayAt('a b.txt:41', 'Too far')).status, 422)
  const [first] = (await owner.get('/repos/site/changes/3/comments?onFiles=true')).body
  assert.deepEqual([first.path, first.line, first.side], ['a b.txt', 12, 'new'])
  assert.equal((await owner.get('/repos/site/changes/3/comments?path=gone.txt')).body.length, 1)

  const moved = `new\n${long.replace('line 30\n', 'other\n')}`
  const changes = [
    { path: 'a b.txt', content: moved },
    { path: 'gone.txt', delete: true },
  ]
  await owner.post('/repos/site/commits', { branch: 'lines', message: 'Move', changes })
  const later = await shown(ada, files)
  assert.match(
    later,
    /id="f1R13"[^\n]*line 12\n*<tr class="said">[\s\S]*At <strong>twelve<\/strong>/,
  )
  assert.match(
    later,
    /1 thread on lines that are not shown here[\s\S]*line 30 of version 1[\s\S]*At thirty/,
  )
  assert.match(later, /1 thread on files that do not differ here[\s\S]*On the file/)
  const since = await shown(ada, `${files}?from=1`)
  assert.match(since, /id="f1L30"[^\n]*line 30\n*<tr class="said">[\s\S]*At thirty/)
  assert.match(await shown(ada, `${files}?version=1`), /id="f\dR30"[^\n]*\n*<tr class="said">/)
  assert.match(await shown(ada, `${files}?split`), /<td colspan="4">/)

  const at = `${files}/comments/${first.id}`
  assert.equal(
    (await ada.post(`${at}/reply?split=`, { text: 'Yes' })).location,
    `${files}?split=#comment-${first.id}`,
  )
  assert.equal((await ada.post(`${at}/resolve`, {})).status, 303)
  assert.match(await shown(rita, files), /Resolved by ada/)
  assert.match(await shown(rita, `${files}?edit=${first.id}`), /comments\/\w+\/edit"/)
  assert.doesNotMatch(await shown(ada, `${files}?edit=${first.id}`), /comments\/\w+\/edit"/)
  assert.equal((await ada.post(`${at}/edit`, { text: 'x' })).status, 403)
  const edit = '/r/site/changes/3/comments'
  assert.match(await shown(rita, `/r/site/changes/3?edit=${first.id}`), /comments\/\w+\/edit"/)
  assert.equal((await rita.post(`${edit}/${first.id}/edit`, { text: 'Said better' })).status, 303)
  assert.match(await shown(ada, files), /· edited[\s\S]*Said better/)
})

test('for strangers there are no changes', async () => {
  const { url } = service
  const stranger = await logIn(url, (await service.client({ username: 'eve' })).token)
  for (const path of ['changes', 'changes/1', 'changes/1/files']) {
    const { status } = await stranger.get(`/r/site/${path}`)
    assert.equal(status, 404, path)
  }
  for (const number of ['9', '0', 'x', '1e0'])
    assert.equal((await ada.get(`/r/site/changes/${number}`)).status, 404, number)
})

test('pages of changes are accessible', { skip: without('chromium') }, async () => {
  await commit('more', 'Third', { 'd.txt': 'x\n' })
  await assertAccessibleInEveryView({ url: service.url, adminToken: owner.token }, [
    '/',
    '/r/site/changes?state=all',
    '/r/site/changes/1',
    '/r/site/changes/2',
    '/r/site/changes/1/files?version=2&from=1',
    '/r/site/changes/3/files?version=2&comment=a%20b.txt%3A13',
    '/r/site/compare/main...more',
  ])
})
