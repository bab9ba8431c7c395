import assert from 'node:assert/strict'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { assertAccessibleInEveryView, openWindow, startBrowser } from '../support/browser.ts'
import { until } from '../support/condition.ts'
import { createProject, type Project } from '../support/git.ts'
import { createPageClient, logIn, type PageClient } from '../support/page-client.ts'
import { without } from '../support/programs.ts'
import { type Service, startService } from '../support/service.ts'

let service: Service
let client: PageClient
let project: Project

before(async () => {
  service = await startService()
  client = await logIn(service.url, service.adminToken)
  await service.admin.post('/repos', { name: 'site' })
  await service.admin.post('/repos', { name: 'empty' })
  project = await createProject()
  await write('README.md', '# Hello\n\n[guide](docs/guide.md)\n')
  await write('docs/guide.md', 'Back to the [README](../README.md#hello).\n')
  await write('src/a "b"\t<script>.ts', 'const a = "<b>"\n')
  await write('src/main.sh', 'echo\n')
  await write(`src/${'long'.repeat(40)}.txt`, 'x\n')
  await project.git('add', '-A')
  await project.git('commit', '-qm', 'Add <i>files</i>')
  await project.git('push', '-q', service.admin.remote('site'), 'HEAD:main', 'HEAD:refs/heads/a/b')
  await project.git('push', '-q', service.admin.remote('site'), 'HEAD:refs/tags/v1')
})

async function write(name: string, content: string): Promise<void> {
  const path = join(project.path, name)
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, content)
}

after(() => service[Symbol.asyncDispose]())

test('the repositories are listed by their last push, and found by a part of their name', async () => {
  // Commits that are not read within milliseconds are left out until the next view.
  const text = await until('the last commit is shown', async () => {
    const { status, text } = await client.get('/')
    assert.equal(status, 200)
    return text.includes('Add &lt;i&gt;files') && text
  })
  assert.ok(text.indexOf('href="/r/empty"') > 0 && text.indexOf('href="/r/site"') > 0)
  assert.match(text, /Add &lt;i&gt;files&lt;\/i&gt;/)
  assert.match(text, /\d push(es)? in 13 weeks/)
  const found = await client.get('/?q=SIT')
  assert.doesNotMatch(found.text, /<h2><a href="\/r\/empty"/)
  assert.match((await client.get('/?q=%25')).text, /No repository matches/)
})

test('activity is that of visible repositories, and runs take their permission', async () => {
  const stranger = await service.client({ username: 'stranger' })
  assert.deepEqual((await stranger.get('/activity')).body, [])
  const { body } = await service.admin.get('/activity?limit=1')
  assert.equal(body.length, 1)
  assert.equal(body[0].pushes.length, 13)
  assert.deepEqual(body[0].runs, [])
  const reader = await service.client({ username: 'reader', permissions: ['repo:read'] })
  await service.admin.post('/repos/site/collaborators', { username: 'reader', role: 'read' })
  const [seen] = (await reader.get('/activity')).body
  assert.deepEqual(
    [seen.name, seen.runs, seen.lastCommit?.summary],
    ['site', null, 'Add <i>files</i>'],
  )
})

test('the pages of activity have every repository once', async () => {
  const names: string[] = []
  for (let path: string | undefined = '/activity?limit=1'; path !== undefined; ) {
    const { body, headers } = await service.admin.get(path)
    names.push(...body.map(({ name }: { name: string }) => name))
    path = /<([^>]+)>; rel="next"/.exec(headers.get('link') ?? '')?.[1]
  }
  assert.deepEqual(names.sort(), ['empty', 'site'])
})

test('a repository shows its files, its README, and how to clone it', async () => {
  const { status, text } = await client.get('/r/site')
  assert.equal(status, 200)
  assert.match(text, /<a href="\/r\/site\/src\/main:docs">docs<\/a>/)
  assert.match(text, /<h2 id="u-hello"><a [^>]*><\/a>Hello<\/h2>/)
  assert.match(text, /<a href="\/r\/site\/src\/main:docs\/guide.md">guide<\/a>/)
  assert.match(text, new RegExp(`${service.url}/r/site</code>`))
  assert.match(text, /href="\/r\/site\/src\/a\/b"/)
  assert.match(text, /TypeScript/)
  const names = [...text.matchAll(/<a href="\/r\/site\/src\/main:[^"]*">([^<]+)<\/a><\/td>/g)]
  assert.deepEqual(
    names.map(([, name]) => name),
    ['docs', 'src', 'README.md', 'readme.txt'],
  )
})

test('an empty repository shows how to push to it', async () => {
  const { status, text } = await client.get('/r/empty')
  assert.equal(status, 200)
  assert.match(text, new RegExp(`git remote add origin ${service.url}/r/empty`))
})

test('a repository with tags but no branch shows its tags, and how to push to it', async () => {
  await service.admin.post('/repos', { name: 'tagged' })
  const remote = service.admin.remote('tagged')
  await project.git('push', '-q', remote, 'HEAD:refs/tags/v1', 'HEAD:refs/tags/a/b')
  const { status, text } = await client.get('/r/tagged')
  assert.equal(status, 200)
  assert.match(text, /tagged has no branch/)
  assert.match(text, new RegExp(`git remote add origin ${service.url}/r/tagged`))
  for (const [, href = ''] of text.matchAll(/<li><a href="([^"]+src[^"]+)"/g))
    assert.equal((await client.get(href)).status, 200, href)
  for (const path of ['log', 'branches', 'tags', 'compare', 'runs', 'pushes', 'settings', 'search'])
    assert.equal((await client.get(`/r/tagged/${path}`)).status, 200, path)
  await using source = await createProject()
  await source.git('tag', 'v1')
  await source.git('switch', '-q', '--detach')
  await source.git('branch', '-D', 'main')
  const fields = { source: source.path, name: 'imported-tags' }
  assert.equal((await service.admin.post('/repos/import', fields)).status, 201)
  assert.equal((await client.get('/r/imported-tags')).status, 200)
})

test('folders and odd names have addresses of their own', async () => {
  const folder = await client.get('/r/site/src/a/b:src/')
  assert.equal(folder.status, 200)
  const [, href = ''] = /href="([^"]+%3Cscript%3E.ts)"/.exec(folder.text) ?? []
  const file = await client.get(href)
  assert.equal(file.status, 200)
  assert.match(file.text, /&quot;&lt;b&gt;&quot;/)
  assert.doesNotMatch(file.text, /<script>/)
})

test('the beginning of an id leads to the whole one', async () => {
  const commit = await project.git('rev-parse', 'HEAD')
  const { status, location } = await client.get(`/r/site/src/${commit.slice(0, 8)}:docs`)
  assert.deepEqual([status, location], [303, `/r/site/src/${commit}:docs`])
})

test('what does not exist has a page that says so', async () => {
  for (const path of ['/r/site/src/nope', '/r/site/src/main:nope', '/r/site/src/main:%2e%2e/x'])
    assert.ok([400, 404].includes((await client.get(path)).status), path)
  const missing = await client.get('/r/site/src/main:nope')
  assert.match(missing.text, /<a class="button" href="\/r\/site">site<\/a>/)
  assert.match(missing.text, /<nav class="tabs"/)
  const unknown = await client.get('/r/nope/src/main:nope')
  assert.doesNotMatch(unknown.text, /<nav class="tabs"|href="\/r\//)
})

test('the path of a file is found by its parts', async () => {
  const { text } = await client.get('/r/site/find/main?q=GUIDE+md')
  assert.match(text, /1 file</)
  assert.match(text, /href="\/r\/site\/src\/main:docs\/guide.md"/)
  assert.doesNotMatch(text, /main.sh/)
})

test('languages are those of all folders, and follow each change', async () => {
  await service.admin.post('/repos', { name: 'languages' })
  await using changed = await createProject()
  async function sharesAfter(files: Record<string, number>) {
    for (const [name, bytes] of Object.entries(files)) {
      await mkdir(dirname(join(changed.path, name)), { recursive: true })
      await writeFile(join(changed.path, name), 'x'.repeat(bytes))
    }
    await changed.git('add', '-A')
    await changed.git('commit', '-qm', 'Change')
    await changed.git('push', '-q', service.admin.remote('languages'), 'HEAD:main')
    const { text } = await client.get('/r/languages')
    const found = text.matchAll(/<span>([^<]+) <span class="soft">([\d.]+)%<\/span>/g)
    return Object.fromEntries([...found].map(([, language, percent]) => [language, percent]))
  }
  const first = await sharesAfter({ 'a.ts': 50, 'b/c/d.sh': 50 })
  assert.deepEqual(first, { TypeScript: '50.0', Shell: '50.0' })
  const second = await sharesAfter({ 'b/e.go': 300 })
  assert.deepEqual(second, { Go: '75.0', TypeScript: '12.5', Shell: '12.5' })
  // A folder that is like another one counts twice.
  const third = await sharesAfter({ 'f/d.sh': 50, 'b/e.go': 50 })
  assert.deepEqual(third, { Shell: '50.0', TypeScript: '25.0', Go: '25.0' })
})

test('Git clones and pushes by the address of a page', async () => {
  const url = service.admin.remote('site').replace(/\/repos\/site\.git$/, '/r/site')
  const clone = await createProject()
  await clone.git('fetch', '-q', url, 'main')
  await clone.git('push', '-q', url, 'FETCH_HEAD:refs/heads/pushed')
  const listed = await project.git('ls-remote', service.admin.remote('site'), 'refs/heads/pushed')
  assert.match(listed, /refs\/heads\/pushed/)
})

test('the address for Git says nothing about a repository', async () => {
  const anonymous = createPageClient(service.url)
  for (const name of ['site', 'nope']) {
    const path = `/r/${name}/info/refs?service=git-upload-pack`
    const { status, location } = await anonymous.get(path)
    assert.deepEqual(
      [status, location],
      [307, `/repos/${name}.git/info/refs?service=git-upload-pack`],
    )
  }
  assert.notEqual((await anonymous.get('/r/site/info/refs?service=x')).status, 307)
})

test('repositories and folders are accessible and quiet in every view', {
  skip: without('chromium'),
}, async () => {
  await assertAccessibleInEveryView(service, [
    '/',
    '/r/site',
    '/r/site/src/main:docs/guide.md',
    '/r/site/src/main:src/main.sh',
    '/r/site/find/main',
  ])
})

test('arrows choose among the files that were found, and Enter opens one', {
  skip: without('chromium'),
}, async () => {
  const browser = await startBrowser()
  try {
    const view = { width: 1280, scheme: 'light', hasScripts: true } as const
    const { page } = await openWindow(browser, {
      ...view,
      url: service.url,
      token: service.adminToken,
    })
    await page.goto('/r/site/find/main')
    await page.keyboard.type('md')
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('ArrowUp')
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    await page.waitForURL('**/r/site/src/main:docs/guide.md')
    await page.goto('/r/site/find/main')
    await page.keyboard.type('main.sh')
    await page.keyboard.press('Enter')
    await page.waitForURL('**/r/site/src/main:src/main.sh')
  } finally {
    await browser.close()
  }
})

test('a submodule leads to its repository, also from a folder', async () => {
  await service.admin.post('/repos', { name: 'super' })
  await using folder = await createProject()
  const id = await folder.git('rev-parse', 'HEAD')
  const sections = ['lib', 'vendor/other', 'gone'].map(
    (path, index) =>
      `[submodule "${index}"]\n\tpath = ${path}\n\turl = ${['../empty.git', 'git@code.example:a/b.git', '/srv/x'][index]}\n`,
  )
  await writeFile(join(folder.path, '.gitmodules'), sections.join(''))
  await folder.git('add', '.gitmodules')
  for (const path of ['lib', 'vendor/other', 'gone'])
    await folder.git('update-index', '--add', '--cacheinfo', `160000,${id},${path}`)
  await folder.git('commit', '--quiet', '--message', 'Submodules')
  await folder.git('push', '--quiet', service.admin.remote('super'), 'HEAD:main')
  const { text } = await client.get('/r/super')
  assert.match(text, /<a href="\/r\/empty"[^>]*>lib<\/a>/)
  assert.match(text, /<\/span>gone <code/)
  const below = (await client.get('/r/super/src/main:vendor')).text
  assert.match(below, /<a href="https:\/\/code\.example\/a\/b"[^>]*>other<\/a>/)
})
