import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { newTokenString } from '#base/token-string.ts'
import { assertAccessible, openWindow, startBrowser } from '../support/browser.ts'
import { type InProcess, startInProcess } from '../support/in-process.ts'
import { logIn, type PageClient } from '../support/page-client.ts'
import { decode } from '../support/page-markup.ts'
import { without } from '../support/programs.ts'

let service: InProcess
let client: PageClient

before(async () => {
  service = await startInProcess({ SVC_REQUEST_BURST: '10000' })
  client = await logIn(service.url, service.adminToken)
})

after(() => service[Symbol.asyncDispose]())

type File = { content?: string; contentBase64?: string; mode?: string }

/** A repository with files on `main`. */
async function newRepository(name: string, files: Record<string, File>): Promise<void> {
  await service.admin.post('/repos', { name })
  const changes = Object.entries(files).map(([path, file]) => ({ path, ...file }))
  const made = await service.admin.post(`/repos/${name}/commits`, {
    ...{ branch: 'main', message: 'Start', changes },
  })
  assert.equal(made.status, 201, made.text)
}

/** A file as JSON; undefined if there is none. */
async function fileOf(name: string, path: string, rev = 'main') {
  const query = new URLSearchParams({ rev, path })
  const headers = { authorization: `Bearer ${service.adminToken}`, accept: 'application/json' }
  const response = await fetch(`${service.url}/repos/${name}/file?${query}`, { headers })
  const body = (await response.json()) as { id: string; mode: string; content: string }
  return response.status === 200 ? body : undefined
}

const contentOf = async (name: string, path: string, rev?: string) =>
  (await fileOf(name, path, rev))?.content

async function lastCommit(name: string, rev = 'main') {
  return (await service.admin.get(`/repos/${name}/commits?rev=${rev}&limit=1`)).body[0]
}

/** The fields of the form of a page, as a browser without scripts sends them. */
function fieldsOf(html: string): Record<string, string> {
  const [, form = ''] = /<form method="post" action="\/r\/[^>]*>([\s\S]*?)<\/form>/.exec(html) ?? []
  const fields: Record<string, string> = {}
  for (const [, attributes = ''] of form.matchAll(/<input([^>]*)>/g)) {
    const of = (name: string) =>
      decode(new RegExp(` ${name}="([^"]*)"`).exec(attributes)?.[1] ?? '')
    const isChoice = /checkbox|radio/.test(of('type'))
    if (!isChoice || / checked/.test(attributes)) fields[of('name')] = of('value')
  }
  for (const [, attributes = '', text = ''] of form.matchAll(
    /<textarea([^>]*)>\n([\s\S]*?)<\/textarea>/g,
  ))
    fields[/ name="([^"]*)"/.exec(attributes)?.[1] ?? ''] = decode(text).replaceAll('\n', '\r\n')
  return fields
}

/** Opens the form of a page and sends it with some other fields. */
async function send(path: string, changes: Record<string, string>, as = client) {
  const { status, text } = await as.get(path)
  assert.equal(status, 200, path)
  return as.post(path, { ...fieldsOf(text), ...changes })
}

const alertOf = (html: string) =>
  decode(/role="alert"[\s\S]*?<p>([\s\S]*?)<\/p>/.exec(html)?.[1]?.replace(/<[^>]*>/g, '') ?? '')
const faultOf = (html: string) =>
  decode(/class="field-problem"[^>]*>[\s\S]*?<\/svg> ([^<]*)</.exec(html)?.[1] ?? '')

test('the first file of an empty repository is written in the browser', async () => {
  await service.admin.post('/repos', { name: 'fresh' })
  assert.match((await client.get('/r/fresh')).text, /href="\/r\/fresh\/new\/main"/)
  const { location } = await send('/r/fresh/new/main', {
    ...{ path: 'docs/a b.md', content: 'One\r\ntwo' },
    ...{ summary: 'Begin', description: 'Why.\r\nBecause.' },
  })
  assert.equal(location, '/r/fresh/src/main:docs/a%20b.md')
  assert.equal(await contentOf('fresh', 'docs/a b.md'), 'One\ntwo\n')
  assert.equal((await lastCommit('fresh')).message.trimEnd(), 'Begin\n\nWhy.\nBecause.')
  assert.match(
    (await client.get('/r/fresh/src/main:docs')).text,
    /href="\/r\/fresh\/new\/main:docs"/,
  )
})

test('a file is edited, renamed and deleted, on its branch or a new one', async () => {
  const crlf = 'a\r\nb\r\nc'
  await newRepository('site', {
    'run.sh': { content: 'echo 1\n', mode: '100755' },
    'crlf.txt': { content: crlf },
    'docs/guide.md': { content: '# Guide\n' },
    'docs/more.md': { content: '# More\n' },
    'data.bin': { contentBase64: Buffer.from([0, 1, 2]).toString('base64') },
    'latin.txt': { contentBase64: Buffer.from('caf\xe9\n', 'latin1').toString('base64') },
    'large.txt': { content: 'x'.repeat(256 * 1024 + 1) },
    link: { content: 'run.sh', mode: '120000' },
  })
  const page = (await client.get('/r/site/src/main:run.sh')).text
  assert.match(page, /href="\/r\/site\/edit\/main:run.sh"[^>]*>Edit</)
  assert.match(page, /href="\/r\/site\/delete\/main:run.sh"/)

  await send('/r/site/edit/main:run.sh', { content: 'echo 2\r\n' })
  assert.equal(await contentOf('site', 'run.sh'), 'echo 2\n')
  assert.equal((await lastCommit('site')).message.trimEnd(), 'Edit run.sh')
  await send('/r/site/edit/main:crlf.txt', { content: 'a\r\nX\r\nc' })
  assert.equal(await contentOf('site', 'crlf.txt'), 'a\r\nX\r\nc')

  const renamed = await send('/r/site/edit/main:run.sh', { path: 'bin/run', content: 'echo 3\r\n' })
  assert.equal(renamed.location, '/r/site/src/main:bin/run')
  const program = await fileOf('site', 'bin/run')
  assert.deepEqual([program?.mode, program?.content], ['100755', 'echo 3\n'])
  assert.equal(await contentOf('site', 'run.sh'), undefined)

  // What is no text has another path, and the same content.
  for (const path of ['data.bin', 'latin.txt', 'large.txt', 'link']) {
    const file = await fileOf('site', path)
    assert.match((await client.get(`/r/site/src/main:${path}`)).text, />Rename<\/a>/, path)
    assert.doesNotMatch(
      (await client.get(`/r/site/edit/main:${path}`)).text,
      /name="content"/,
      path,
    )
    await send(`/r/site/edit/main:${path}`, { path: `moved/${path}` })
    const moved = await fileOf('site', `moved/${path}`)
    assert.deepEqual([moved?.id, moved?.mode], [file?.id, file?.mode], path)
  }
  const folder = fieldsOf((await client.get('/r/site/edit/main:docs')).text)
  await send('/r/site/new/main:docs', { path: 'docs/late.md', content: 'x' })
  await client.post('/r/site/edit/main:docs', { ...folder, path: 'manual' })
  assert.equal(await contentOf('site', 'manual/late.md'), 'x\n')
  assert.equal(await contentOf('site', 'manual/more.md'), '# More\n')

  const side = await send('/r/site/edit/main:manual/guide.md', {
    ...{ content: '# New\r\n', to: 'new', newBranch: 'side' },
  })
  assert.equal(side.location, '/r/site/src/side:manual/guide.md')
  assert.equal(await contentOf('site', 'manual/guide.md', 'side'), '# New\n')
  assert.equal(await contentOf('site', 'manual/guide.md'), '# Guide\n')

  const gone = await send('/r/site/delete/main:manual/guide.md', { summary: 'No guide' })
  assert.equal(gone.location, `/r/site/commit/${(await lastCommit('site')).id}`)
  assert.equal(await contentOf('site', 'manual/guide.md'), undefined)
  await send('/r/site/delete/main:moved', { to: 'new', newBranch: 'small' })
  assert.equal(await contentOf('site', 'moved/link', 'small'), undefined)
  assert.equal(await contentOf('site', 'moved/link'), 'run.sh')

  // Only branches are changed.
  const { id } = await lastCommit('site')
  await service.admin.put('/repos/site/refs?ref=refs/tags/v1', { target: id })
  for (const rev of ['v1', id, 'refs/heads/main', 'nope'])
    assert.equal((await client.get(`/r/site/edit/${rev}:crlf.txt`)).status, 404, rev)
  for (const rev of ['v1', id])
    assert.doesNotMatch((await client.get(`/r/site/src/${rev}:crlf.txt`)).text, /\/(edit|delete)\//)
})

test('what is refused comes back with all that was typed', async () => {
  await newRepository('strict', { 'a.txt': { content: 'one\n' }, 'd/b.txt': { content: 'b\n' } })
  await service.admin.put('/repos/strict/refs?ref=refs/heads/release', { target: 'main' })
  await service.admin.put('/repos/strict/protections/branches/release', { owners: 'none' })
  const typed = '\r\n<script>alert(1)</script>\r\n</textarea>"\u202e'
  const before = (await lastCommit('strict')).id

  /** The page after a form was refused, with its sentence. */
  async function refused(path: string, changes: Record<string, string>, as = client) {
    const fields = { content: typed, summary: 'My <b>', description: 'Long', ...changes }
    const { status, text } = await send(path, fields, as)
    assert.ok(status >= 400 && status < 500, `${path}: ${status}`)
    const kept = fieldsOf(text)
    for (const [name, value] of Object.entries(fields)) assert.equal(kept[name], value, name)
    assert.doesNotMatch(text, /<script>alert/)
    return `${alertOf(text)} ${faultOf(text)}`
  }

  const paths: Record<string, RegExp> = {
    '../x': /Path has the name `\.` or `\.\.`/,
    '/etc/passwd': /Path has an empty name/,
    'x/': /Path has an empty name/,
    '.git/config': /Git refuses "?.*\.git/,
    'a.txt': /There is a file with this path already/,
    d: /"d" cannot be written: it is a directory/,
    'a.txt/b': /"a.txt" is a file, not a directory/,
    ' ': /Path/,
  }
  for (const [path, expected] of Object.entries(paths))
    assert.match(await refused('/r/strict/new/main', { path }), expected, path)
  const edit = '/r/strict/edit/main:a.txt'
  assert.match(await refused(edit, { content: 'one\r\n' }), /Nothing has changed/)
  assert.match(await refused(edit, { path: 'd/b.txt' }), /it exists/)
  assert.match(await refused(edit, { to: 'new' }), /Give the new branch a name/)
  assert.match(await refused(edit, { newBranch: 'x' }), /Choose the new branch/)
  assert.match(await refused(edit, { to: 'new', newBranch: 'main' }), /There is a branch with this/)
  assert.match(await refused(edit, { to: 'new', newBranch: 'a..b' }), /name of a branch/)
  assert.match(await refused(edit, { content: 'é'.repeat(200_000) }), /has more than 256/)
  const leak = `token = ${newTokenString()}\r\n`
  assert.match(await refused(edit, { content: leak }), /contains? a? ?credential/)

  // A branch that is protected: the form says so, and proposes a change.
  const { text } = await client.get('/r/strict/edit/release:a.txt')
  assert.match(text, /value="new">[\s\S]*value="change" checked/)
  assert.doesNotMatch(text, /value="branch"/)
  assert.match(text, /protected/)
  assert.match(await refused('/r/strict/edit/release:a.txt', { to: 'branch' }), /protected/)
  assert.equal((await lastCommit('strict')).id, before)

  // Someone who may read, or no more write, or whose token reads.
  await service.admin.post('/repos/strict/collaborators', { username: 'rita', role: 'write' })
  const made = await service.admin.post('/tokens', { name: 'x', username: 'rita' })
  const rita = await logIn(service.url, made.body.token)
  const open = await rita.get(edit)
  await service.admin.post('/repos/strict/collaborators', { username: 'rita', role: 'read' })
  const late = await rita.post(edit, { ...fieldsOf(open.text), content: typed })
  assert.equal(late.status, 403)
  assert.equal(fieldsOf(late.text).content, typed)
  // A reader has the forms, and proposes what they make.
  assert.match((await rita.get('/r/strict/src/main:a.txt')).text, /\/edit\/[\s\S]*\/delete\//)
  const only = fieldsOf((await rita.get('/r/strict/new/main:d')).text)
  assert.deepEqual([only.to, 'newBranch' in only], ['change', false])
  assert.match(await refused(edit, { content: 'one\r\n' }, rita), /Nothing has changed/)
  const proposal = { content: 'one\r\ntwo\r\n', summary: 'Add <two>', description: 'Why.' }
  const proposed = await send(edit, proposal, rita)
  assert.equal(proposed.location, '/r/strict/changes/1', proposed.text)
  const { body: change } = await service.admin.get('/repos/strict/changes/1')
  const { username, target, title, description, versions } = change
  assert.deepEqual([username, target, title, description], ['rita', 'main', 'Add <two>', 'Why.'])
  assert.deepEqual([versions.length, versions[0].base], [1, before])
  assert.equal(await contentOf('strict', 'a.txt', 'refs/changes/1/1'), 'one\ntwo\n')
  assert.equal((await lastCommit('strict')).id, before)
  const deletion = await send('/r/strict/delete/release:d', { to: 'change' })
  assert.equal(deletion.location, '/r/strict/changes/2', deletion.text)
  const read = { username: 'rita', permissions: ['repo:read'] }
  const looking = await service.admin.post('/tokens', { name: 'y', ...read })
  const reader = await logIn(service.url, looking.body.token)
  assert.match((await reader.get(edit)).text, /do not allow you to change files/)
  assert.doesNotMatch((await reader.get('/r/strict/src/main:a.txt')).text, /\/(edit|delete)\//)
  assert.doesNotMatch((await reader.get('/r/strict')).text, /\/new\//)
  assert.match((await client.get('/r/strict')).text, /\/new\/main/)

  // A session that is locked asks for the token, and goes on.
  await service.db.updateTable('sessions').set({ unlockedUntil: 0 }).execute()
  const locked = await send('/r/strict/new/main', { path: '<script>', content: typed })
  assert.match(locked.text, /Confirm it is you/)
  const again = { ...fieldsOf(locked.text), _token: service.adminToken }
  const { location } = await client.post('/r/strict/new/main', again)
  assert.equal(location, '/r/strict/src/main:%3Cscript%3E')
  assert.equal(await contentOf('strict', '<script>'), `${typed.replaceAll('\r\n', '\n')}\n`)
  assert.doesNotMatch((await client.get('/r/strict/edit/main:%3Cscript%3E')).text, /<script>/)
})

test('a change of others in the meantime is not lost, nor the text', async () => {
  await newRepository('shared', { 'a.txt': { content: 'one\n' }, 'b.txt': { content: 'b\n' } })
  const commit = (changes: object[]) =>
    service.admin.post('/repos/shared/commits', { branch: 'main', message: 'Theirs', changes })
  const path = '/r/shared/edit/main:a.txt'

  // Another file does not matter.
  const first = fieldsOf((await client.get(path)).text)
  await commit([{ path: 'b.txt', content: 'theirs\n' }])
  assert.equal((await client.post(path, { ...first, content: 'two\r\n' })).status, 303)

  for (const [newBranch, theirs] of [
    ['one', { content: 'theirs\n' }],
    ['two', { delete: true }],
  ] as const) {
    const opened = fieldsOf((await client.get(path)).text)
    const fields: Record<string, string> = { ...opened, content: `mine ${newBranch}\r\n` }
    await commit([{ path: 'a.txt', ...theirs }])
    const head = (await lastCommit('shared')).id
    const conflict = await client.post(path, fields)
    assert.equal(conflict.status, 409)
    assert.match(alertOf(conflict.text), /"a\.txt" (has changed|was deleted or renamed) since you/)
    const kept = fieldsOf(conflict.text)
    assert.deepEqual(kept, fields)
    assert.match(conflict.text, new RegExp(`/compare/${fields.head}\\.\\.\\.main"`))
    // The same again changes nothing; a new branch starts before the change of others.
    assert.equal((await client.post(path, kept)).status, 409)
    assert.equal((await lastCommit('shared')).id, head)
    assert.equal((await client.post(path, { ...kept, to: 'new', newBranch })).status, 303)
    assert.equal(await contentOf('shared', 'a.txt', newBranch), `mine ${newBranch}\n`)
    const [, replace = ''] = /name="replace" value="(\w+)"/.exec(conflict.text) ?? []
    assert.equal((await client.post(path, { ...kept, replace })).status, 303)
    assert.equal(await contentOf('shared', 'a.txt'), `mine ${newBranch}\n`)
  }

  const deletion = '/r/shared/delete/main:a.txt'
  const fields = fieldsOf((await client.get(deletion)).text)
  await commit([{ path: 'a.txt', content: 'new\n' }])
  const { status, text } = await client.post(deletion, fields)
  assert.equal(status, 409)
  assert.equal(await contentOf('shared', 'a.txt'), 'new\n')
  assert.equal((await client.post(deletion, fieldsOf(text))).status, 303)
})

test('a browser edits by keyboard, and keeps all other bytes of a file', {
  skip: without('chromium'),
}, async () => {
  const text = '\ufeff\na\r\n\u001b[1m \u202e\u0085\u00a0<b>&amp;\r\nlong\tline\rz'
  await newRepository('odd', { 'odd.txt': { content: text }, 'b.txt': { content: 'b\n' } })
  const browser = await startBrowser()
  try {
    const { url, adminToken: token } = service
    const view = { width: 390, scheme: 'dark', hasScripts: true, url, token } as const
    const { page, faults } = await openWindow(browser, view)
    await page.goto('/r/odd/src/main:odd.txt')
    await page.keyboard.press('e')
    await page.getByLabel('Content').waitFor()
    await page.keyboard.press('Control+End')
    await page.keyboard.type('!')
    await page.keyboard.press('Tab')
    await page.keyboard.type('By keyboard')
    await page.keyboard.press('Enter')
    await page.waitForURL('**/src/main:odd.txt')
    assert.equal(await contentOf('odd', 'odd.txt'), `${text}!`)
    assert.equal((await lastCommit('odd')).message.trimEnd(), 'By keyboard')

    await page.goto('/r/odd/edit/main:odd.txt')
    const changes = [{ path: 'odd.txt', content: 'theirs\n' }]
    await service.admin.post('/repos/odd/commits', { branch: 'main', message: 'x', changes })
    await page.getByLabel('Summary').press('Enter')
    await page.getByText('Replace it with this text').click()
    await assertAccessible(page)
    await page.getByLabel('Content').press('Control+End')
    await page.keyboard.type('?')
    await page.getByRole('button', { name: 'Commit' }).press('Enter')
    await page.waitForURL('**/src/main:odd.txt')
    assert.match((await contentOf('odd', 'odd.txt')) ?? '', /z!\?\n$/)
    assert.deepEqual(
      faults.filter((fault) => !/status of 409/.test(fault)),
      [],
    )
  } finally {
    await browser.close()
  }
})
