import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { quoteForImport, startBrowseSite } from '../support/browse-site.ts'
import { assertAccessibleInEveryView } from '../support/browser.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { logIn, type PageClient } from '../support/page-client.ts'
import { without } from '../support/programs.ts'

const data = (text: string) => `data ${Buffer.byteLength(text, 'latin1')}\n${text}\n`
const hostile = `<script>alert(1)</script>"'&`

let site: Awaited<ReturnType<typeof startBrowseSite>>
let client: PageClient
let first: string
let tip: string

before(async () => {
  site = await startBrowseSite()
  const commits = Array.from({ length: 60 }, (_, index) => {
    const author =
      index % 2 === 0 ? 'Ada <ada@example.com>' : `${hostile.replace(/[<>]/g, '')} <bo@example.com>`
    const message = index === 0 ? `${hostile} first\n\nThe body\nof it` : `Change ${index}`
    return `commit refs/heads/main\nauthor ${author} ${1_700_000_000 + index * 3600} +0100\ncommitter ${author} ${1_700_000_000 + index * 3600} +0100\n${data(message)}M 100644 inline file.txt\n${data(`same\nline ${index} needle ${hostile}\n`)}M 100644 inline ${quoteForImport('odd \xff"name')}\n${data(`odd ${index < 3}\n`)}`
  })
  await site.importCommits(commits.join(''))
  const id = async (rev: string) => (await site.git('rev-parse', rev)).trim()
  first = await id('main~59')
  tip = await id('main')
  await site.git('branch', 'topic/one', 'main~3')
  await site.git('branch', '7777777', 'main~2')
  await site.git('tag', 'blob', `${tip}:file.txt`)
  await site.git('tag', 'tree', `${tip}^{tree}`)
  await site.git('tag', 'v1', first)
  await site.push('--all')
  await site.push('--tags')
  await site.admin.put('/repos/site/protections/branches/topic/*', { owners: 'fast-forward' })
  await site.admin.post('/repos', { name: 'empty' })
})

// Rates of pages are limited by token.
beforeEach(async () => {
  const { token } = await site.service.client({ permissions: ['admin'] })
  client = await logIn(site.service.url, token)
})

after(() => site[Symbol.asyncDispose]())

/** The text of a page without its tags. */
async function textOf(path: string): Promise<string> {
  const { status, text } = await client.get(path)
  assert.equal(status, 200, path)
  assert.ok(!text.includes('<script>alert'), path)
  return text.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ')
}

test('the log has 50 commits a page, and goes on from the same tip', async () => {
  const { text } = await client.get('/r/site/log')
  assert.equal(text.match(/class="row commit-row"/g)?.length, 50)
  assert.match(text, /<h2>\d+ November 2023<\/h2>/)
  const [, next = ''] = /<a class="button" href="([^"]+)" rel="next">Older/.exec(text) ?? []
  const older = await textOf(next.replaceAll('&amp;', '&'))
  assert.match(older, /alert\(1\).*first/)
  assert.match(older, /Newer/)
  assert.doesNotMatch(older, /Older/)
})

test('the log is that of a path, of an author, or of a commit', async () => {
  assert.match(await textOf(`/r/site/log/${first}`), /first.*v1/)
  assert.doesNotMatch(await textOf('/r/site/log/main?author=ada%40'), /Change 1 /)
  const odd = await textOf('/r/site/log/main:odd%20%FF%22name')
  assert.match(odd, /Change 3 .*first/)
  assert.doesNotMatch(odd, /Change 4 /)
  assert.match(await textOf('/r/site/log/topic/one'), /Change 56 /)
  assert.match(await textOf('/r/site/log/main?author=absent'), /No commits of an author like/)
})

test('pages of the default branch of an empty repository say so, those of others are not found', async () => {
  for (const path of ['log', 'log/main', 'src/main', 'src/refs/heads/main', 'find/main'])
    assert.match(await textOf(`/r/empty/${path}`), /No commits yet/, path)
  for (const query of ['q=x', 'q=x&rev=main', 'q=x&path=src&i=on'])
    assert.match(await textOf(`/r/empty/search?${query}`), /No commits yet/, query)
  for (const path of ['log/other', 'src/other', 'src/main:x', 'find/other', 'search?q=x&rev=other'])
    assert.equal((await client.get(`/r/empty/${path}`)).status, 404, path)
})

test('unknown revisions are not found', async () => {
  for (const path of [
    'log/nope',
    'log/main~1',
    'commit/nope',
    'compare/main...nope',
    'blame/main:nope',
    'log/main:%',
    'archive/main',
    'archive/nope.zip',
  ])
    assert.equal((await client.get(`/r/site/${path}`)).status, 404, path)
  assert.equal((await client.get('/r/empty/branches')).status, 200)
  assert.equal((await client.get('/r/empty/tags')).status, 200)
})

test('the feed is well-formed and escapes what commits have', async () => {
  const { status, text, headers } = await client.get('/r/site/log/main.atom')
  assert.equal(status, 200)
  assert.equal(headers.get('content-type'), 'application/atom+xml; charset=utf-8')
  assert.equal(text.match(/<entry>/g)?.length, 50)
  assert.ok(text.includes(`<link href="${site.service.url}/r/site/commit/${tip}"/>`))
  assert.ok(!/<script>/.test(text))
})

test('people without a name, and with hidden characters in it, have a text everywhere', async () => {
  const people = ['<bare@example.com>', '<>', 'Zero\u200bWidth <zero@example.com>']
  const commits = people.map((person, index) => {
    const who = `${person} ${1_800_000_000 + index} +0000`
    return `commit refs/heads/people\nauthor ${who}\ncommitter ${who}\n${data(`By ${index}`)}M 100644 inline ${index}.txt\n${data(`${index}\n`)}`
  })
  await site.importCommits(Buffer.from(commits.join('')).toString('latin1'))
  await site.push('people')
  const feed = (await client.get('/r/site/log/people.atom')).text
  const names = [...feed.matchAll(/<name>([^<]*)<\/name>/g)].map(([, name]) => name)
  assert.deepEqual(names, ['Zero\u200bWidth', '(no name)', 'bare@example.com'])
  const log = await textOf('/r/site/log/people')
  for (const name of ['bare@example.com', '(no name)', 'Zero U+200B Width'])
    assert.ok(log.includes(name), name)
  for (const [index, name] of ['bare@example.com', '(no name)', 'Zero[U+200B]Width'].entries()) {
    const { text } = await client.get(`/r/site/blame/people:${index}.txt`)
    assert.ok(text.includes(`title="By ${index} (${name})"`), text)
  }
  await site.push('--delete', 'people')
})

test('blame has the commit of each line, and links to the time before', async () => {
  const text = await textOf('/r/site/blame/main:file.txt')
  assert.match(text, /first.*Change 59/)
  const { text: page } = await client.get('/r/site/blame/main:file.txt')
  assert.match(page, /href="\/r\/site\/blame\/[0-9a-f]{40,64}:file.txt#L2"/)
  assert.equal((await client.get('/r/site/blame/main')).status, 400)
  for (const from of ['0', '-1', 'x', '1e3', '1.5', '9'.repeat(20)]) {
    const { status, text: refused } = await client.get(`/r/site/blame/main:file.txt?from=${from}`)
    assert.equal(status, 400, from)
    assert.match(refused, /must be the number of a line, from 1\./)
  }
})

test('a search groups lines by file and marks the text', async () => {
  const { text } = await client.get(
    `/r/site/search?${new URLSearchParams({ q: `needle ${hostile.slice(0, 8)}` })}`,
  )
  assert.match(text, /<mark>needle &lt;script&gt;<\/mark>/)
  assert.match(text, /href="\/r\/site\/src\/main:file\.txt#L2"/)
  assert.match(await textOf('/r/site/search?q=absent'), /No file has “absent”/)
  assert.match(await textOf('/r/site/search?q=NEEDLE&i=on'), /1 line in 1 file/)
  const { text: twice } = await client.get('/r/site/search?q=SCRIPT&i=on')
  assert.equal(twice.match(/<mark>script<\/mark>/g)?.length, 2)
  assert.equal((await client.get('/r/site/search')).status, 200)
  assert.equal((await client.get('/r/site/search?q=needle&rev=nope')).status, 404)
})

test('archives are downloads with the name of their revision', async () => {
  const response = await fetch(`${site.service.url}/r/site/archive/v1.tar.gz`, {
    headers: { cookie: client.cookie() },
  })
  assert.equal(response.status, 200)
  assert.match(response.headers.get('content-disposition') ?? '', /site-v1\.tar\.gz/)
  assert.match(
    gunzipSync(Buffer.from(await response.arrayBuffer())).toString('latin1'),
    /site-v1\/file\.txt/,
  )
})

test('branches show how far they are from the default one', async () => {
  const text = await textOf('/r/site/branches')
  assert.match(
    text,
    /topic\/one protected by topic\/\*, owners: fast-forward only.*Change 56.*3 behind 0 ahead/,
  )
  assert.match(text, /main default/)
  const { text: markup } = await client.get('/r/site/branches')
  assert.match(markup, /aria-label="Delete 7777777"/)
  // Not even its owner may delete it.
  assert.doesNotMatch(markup, /aria-label="Delete topic\/one"/)
})

test('tags of trees and blobs are listed without links', async () => {
  const text = await textOf('/r/site/tags')
  assert.match(
    text,
    /v1 .*tree .* a folder outside of any commit.*blob .* a file outside of any commit/,
  )
})

test('a signed tag says in which format, and shows its message without the signature', async () => {
  const signature = '-----BEGIN SSH SIGNATURE-----\nU1NIU0lH\n-----END SSH SIGNATURE-----'
  const message = `Signed\n\nFor good\n${signature}\n`
  const tagged = `tag signed\nfrom ${first}\ntagger Ada <ada@example.com> 1700000000 +0000\n`
  await site.importCommits(`${tagged}data ${message.length}\n${message}\n`)
  await site.push('refs/tags/signed')
  const { body } = await site.admin.get('/repos/site/tags')
  const shown = body.find(({ name }: { name: string }) => name === 'signed')
  assert.deepEqual([shown.message, shown.signature], ['Signed\n\nFor good\n', 'ssh'])
  const text = await textOf('/r/site/tags')
  assert.match(text, /signed\s+SSH signature, not verified/)
  assert.match(text, /Ada tagged/)
  assert.doesNotMatch(text, /BEGIN SSH/)
  await site.push('--delete', 'refs/tags/signed')
})

test('the menus of revisions lead to the same page of each branch, and of each tag of a commit', async () => {
  for (const kind of ['log', 'src']) {
    const { text } = await client.get(`/r/site/${kind}/main:file.txt`)
    const menu = text.slice(
      text.indexOf('class="menu picker"'),
      text.indexOf('</details>', text.indexOf('class="menu picker"')),
    )
    const refs = [...menu.matchAll(/href="\/r\/site\/(\w+\/[^"]+)"/g)].map(([, ref]) => ref)
    const expected = ['main', '7777777', 'topic/one', 'v1'].map((ref) => `${kind}/${ref}:file.txt`)
    assert.deepEqual(refs, expected)
  }
})

test('a tag with the name of a branch leads to its own commit', async () => {
  await site.git('branch', 'both', 'main')
  await site.git('tag', 'both', first)
  await site.push('refs/heads/both', 'refs/tags/both')
  const { body } = await site.admin.get('/repos/site/tags')
  const revisions = body.map(({ revision }: { revision: string }) => revision)
  assert.deepEqual(revisions, ['blob', 'refs/tags/both', 'tree', 'v1'])
  const { text: tags } = await client.get('/r/site/tags')
  const [, archive = ''] = /href="([^"]*both\.tar\.gz)"/.exec(tags) ?? []
  const { headers } = await client.get(archive)
  assert.match(headers.get('content-disposition') ?? '', /site-both\.tar\.gz/)
  const { text: log } = await client.get(`/r/site/log/${first}`)
  const links = [...log.matchAll(/<a class="badge" href="([^"]*)">.*?<\/svg>([^<]*)</g)]
  assert.equal(links.length, 2)
  for (const [, href = ''] of links) {
    const rev = encodeURIComponent(decodeURIComponent(href.replace('/r/site/src/', '')))
    const { body: tree } = await site.admin.get(`/repos/site/tree?rev=${rev}`)
    assert.equal(tree.commit, first, href)
  }
  await site.admin.put('/repos/site/protections/branches/*v1')
  assert.doesNotMatch(await textOf('/r/site/src/v1:file.txt'), /protected/)
  assert.match(await textOf('/r/site/src/topic/one:file.txt'), /protected/)
  await site.push('--delete', 'refs/heads/both', 'refs/tags/both')
})

test('lists of branches and tags are filtered, and the newest versions come first', async () => {
  const versions = Array.from({ length: 24 }, (_, index) => `v1.${index + 1}`)
  for (const version of versions) await site.git('tag', version, 'main')
  await site.push(...versions.map((version) => `refs/tags/${version}`))
  const tagsOn = async (path: string) =>
    [...(await client.get(path)).text.matchAll(/class="ref-name">.*?<a[^>]*>([^<]*)/g)].map(
      ([, name]) => name,
    )
  assert.deepEqual((await tagsOn('/r/site/tags')).slice(0, 2), ['v1.24', 'v1.23'])
  assert.deepEqual(await tagsOn('/r/site/tags?q=V1.2'), [
    ...['v1.24', 'v1.23', 'v1.22', 'v1.21', 'v1.20', 'v1.2'],
  ])
  const text = await textOf('/r/site/tags?q=no-such%3C')
  assert.match(text, /All tags[\s\S]*No tags with no-such&lt; in their names/)
  assert.match(await textOf('/r/site/branches?q=TOPIC'), /topic\/one/)
  assert.doesNotMatch(await textOf('/r/site/branches?q=TOPIC'), /7777777/)
  const iconOf = async (rev: string) => {
    const { text: page } = await client.get(`/r/site/src/${rev}`)
    return /class="menu picker"><summary class="button">(.*?)<\/svg>/.exec(page)?.[1]
  }
  const [ofTag, ofBranch] = [await iconOf('v1.24'), await iconOf('main')]
  assert.notEqual(ofTag, ofBranch)
  assert.equal(await iconOf('v1.1'), ofTag, 'a tag that is not in the menu')
  assert.equal(await iconOf('refs/tags/v1.1'), ofTag)
  await site.push('--delete', ...versions.map((version) => `refs/tags/${version}`))
})

test('HEAD leads to the default branch', async () => {
  for (const [from, to] of [
    ['src/HEAD', 'src/main'],
    ['src/HEAD:file.txt?plain', 'src/main:file.txt?plain'],
    ['raw/HEAD:file.txt', 'raw/main:file.txt'],
    ['log/HEAD.atom', 'log/main.atom'],
    ['archive/HEAD.tar.gz', 'archive/main.tar.gz'],
  ]) {
    const { status, location } = await client.get(`/r/site/${from}`)
    assert.deepEqual([status, location], [303, `/r/site/${to}`])
  }
  for (const path of ['/r/site/src/HEADS', '/r/site/src/HEAD%5E', '/r/unknown/src/HEAD'])
    assert.equal((await client.get(path)).status, 404, path)
})

test('branches whose names end like a format have pages of their own', async () => {
  const names = ['notes.atom', 'fix.diff']
  for (const name of names) await site.push(`main~3:refs/heads/${name}`)
  const { text } = await client.get('/r/site/log')
  const { text: branches } = await client.get('/r/site/branches')
  for (const name of names) {
    const [, log = ''] = new RegExp(`href="([^"]*)">${name}</a>`).exec(text) ?? []
    const page = await client.get(log)
    assert.match(page.text, /<h1>Commits<\/h1>[\s\S]*Change 56/)
    const [, feed = ''] = /href="([^"]*)">Feed</.exec(page.text) ?? []
    assert.match((await client.get(feed)).text, /<entry>/)
    const [, compare = ''] =
      new RegExp(`href="([^"]*)" aria-label="Compare ${name}"`).exec(branches) ?? []
    assert.match((await client.get(compare)).text, /<h1>Compare<\/h1>/)
    await site.push('--delete', name)
  }
})

test('branches are listed with the default first, then by their newest commits, page by page', async () => {
  const names = async (address: string) => {
    const { text } = await client.get(address)
    const found = [...text.matchAll(/<td><div class="ref-name">.*?<a href="[^"]*">([^<]*)<\/a>/gs)]
    return { text, names: found.map(([, name = '']) => name) }
  }
  assert.deepEqual((await names('/r/site/branches')).names, ['main', '7777777', 'topic/one'])
  const many = Array.from({ length: 55 }, (_, index) => index)
  await site.push(...many.map((index) => `main~${index + 4}:refs/heads/many/${54 - index}`))
  const first = await names('/r/site/branches?q=many')
  assert.deepEqual(
    first.names,
    many.slice(0, 50).map((index) => `many/${54 - index}`),
  )
  assert.match(first.text, /4<span class="hidden"> behind[\s\S]*53<span class="hidden"> behind/)
  const [, next = ''] = /href="([^"]*)" rel="next"/.exec(first.text) ?? []
  const second = await names(next.replaceAll('&amp;', '&'))
  assert.deepEqual(
    second.names,
    many.slice(50).map((index) => `many/${54 - index}`),
  )
  assert.equal((await client.get('/r/site/branches?cursor=@5000')).status, 200)
  // Also where there are more than the menu shows: by name, `many/…` are before `topic/one`.
  for (const page of ['src/main', 'log/main', 'compare?base=main']) {
    const { text } = await client.get(`/r/site/${page}`)
    const start = page.startsWith('compare') ? '<datalist id="refs">' : '<p>Branches</p>'
    const list = text.slice(text.indexOf(start))
    const found = list.matchAll(/(?:<li><a href[^>]*>|<option value=")([\w/]+)(?=<\/a>|")/g)
    const shown = [...found].map(([, name]) => name)
    assert.deepEqual(
      shown.slice(0, 5),
      ['main', '7777777', 'topic/one', 'many/54', 'many/53'],
      page,
    )
  }
  await site.push('--delete', ...many.map((index) => `many/${index}`))
})

test('tags have dates, also lightweight ones', async () => {
  await site.git('tag', '-a', '-m', 'Noted', 'noted', first)
  await site.push('--tags')
  const { text } = await client.get('/r/site/tags')
  assert.match(text, />v1<[\s\S]*? · committed <time datetime="2023-11-14/)
  assert.match(text, />noted<[\s\S]*? tagged <time/)
  await site.push('--delete', 'noted')
  await site.git('tag', '-d', 'noted')
})

test('code, commits, branches and tags lead to comparisons', async () => {
  const leads = {
    '/r/site': '/r/site/compare?head=main',
    '/r/site/src/topic/one': '/r/site/compare?head=topic%2Fone',
    '/r/site/log/topic/one': '/r/site/compare?head=topic%2Fone',
    '/r/site/branches': '/r/site/compare',
    '/r/site/tags': '/r/site/compare/v1...main',
  }
  for (const [page, compare] of Object.entries(leads)) {
    const { text } = await client.get(page)
    assert.ok(text.includes(`href="${compare}"`), page)
    const { status, location } = await client.get(compare)
    assert.ok(status === 200 || location === '/r/site/compare/main...topic/one', compare)
  }
})

test('branches and tags are created and deleted by forms', async () => {
  const form = { name: 'new/topic', target: 'main' }
  const created = await client.post('/r/site/branches', form)
  assert.deepEqual([created.status, created.location], [303, '/r/site/src/new/topic'])
  const again = await client.post('/r/site/branches', { ...form, target: 'v1' })
  assert.equal(again.status, 409)
  assert.match(again.text, /role="alert"[\s\S]*value="new\/topic"/)
  const odd = await client.post('/r/site/branches', { ...form, name: 'a..b' })
  assert.equal(odd.status, 400)
  assert.match(
    odd.text,
    /value="a\.\.b"[^>]*>\s*<p class="field-problem"[^>]*>.*Git does not accept/,
  )
  assert.equal((await client.post('/r/site/tags', { name: 'v2', target: 'nope' })).status, 422)
  assert.equal((await client.post('/r/site/tags', { name: 'v2', target: 'v1' })).status, 303)
  const moved = await client.post('/r/site/branches/delete', {
    ref: 'refs/heads/new/topic',
    expected: first,
  })
  assert.equal(moved.status, 409)
  for (const [page, ref, expected] of [
    ['branches', 'refs/heads/new/topic', tip],
    ['tags', 'refs/tags/v2', first],
  ] as const) {
    const { status, location } = await client.post(`/r/site/${page}/delete`, { ref, expected })
    assert.deepEqual([status, location], [303, `/r/site/${page}`])
  }
  assert.doesNotMatch(await textOf('/r/site/branches'), /new\/topic/)
})

test('a reader sees no forms, and pages of invisible repositories are as those of none', async () => {
  const { token } = await site.service.client({ username: 'reader', permissions: ['repo:read'] })
  const reader = await logIn(site.service.url, token)
  for (const path of [
    'log',
    'log/main.atom',
    `commit/${tip}`,
    'compare/v1...main',
    'blame/main:file.txt',
    'search?q=x',
    'branches',
    'archive/main.zip',
  ]) {
    const [hidden, unknown] = [
      await reader.get(`/r/site/${path}`),
      await reader.get(`/r/nope/${path}`),
    ]
    assert.deepEqual([hidden.status, unknown.status], [404, 404], path)
    assert.equal(hidden.text.replaceAll('site', 'NAME'), unknown.text.replaceAll('nope', 'NAME'))
  }
  await site.admin.post('/repos/site/collaborators', { username: 'reader', role: 'read' })
  const { body } = await site.admin.post('/tokens', {
    name: 'second',
    username: 'reader',
    permissions: ['repo:read'],
  })
  const member = await logIn(site.service.url, body.token)
  const { text } = await member.get('/r/site/branches')
  assert.match(text, /topic\/one/)
  assert.doesNotMatch(text, /New branch|>Delete</)
})

test('the pages of history are accessible and quiet in every view', {
  ...exhaustive,
  skip: without('chromium'),
}, async () => {
  const pages = ['log', 'branches', 'tags', 'blame/main:file.txt', 'search?q=needle']
  await assertAccessibleInEveryView(
    site.service,
    pages.map((path) => `/r/site/${path}`),
  )
})
