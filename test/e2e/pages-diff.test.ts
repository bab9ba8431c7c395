import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, before, beforeEach, test } from 'node:test'
import { quoteForImport, startBrowseSite } from '../support/browse-site.ts'
import { assertAccessibleInEveryView, openWindow, startBrowser } from '../support/browser.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { spawnGit } from '../support/git.ts'
import { logIn, type PageClient } from '../support/page-client.ts'
import { without } from '../support/programs.ts'

const data = (text: string) => `data ${Buffer.byteLength(text, 'latin1')}\n${text}\n`
const numbered = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => `const line = ${from + index}\n`).join('')

let site: Awaited<ReturnType<typeof startBrowseSite>>
let client: PageClient
const ids: Record<string, string> = {}

before(async () => {
  site = await startBrowseSite()
  const author = 'A <a@example.com> 1700000000 +0000'
  const before = {
    'code.ts': numbered(1, 60),
    old: numbered(1, 30),
    gone: 'gone\n',
    'x.png': '\x89PNG\0',
    run: 'run\n',
    link: 'plain\n',
    'crlf.txt': 'a\r\nb\r\n',
  }
  const files = (all: Record<string, string>) =>
    Object.entries(all)
      .map(([name, content]) => `M 100644 inline ${quoteForImport(name)}\n${data(content)}`)
      .join('')
  await site.importCommits(
    `commit refs/heads/main\ncommitter ${author}\n${data('base')}${files(before)}\n` +
      `commit refs/heads/side\ncommitter ${author}\n${data('side')}from refs/heads/main\nM 100644 inline side\n${data('side\n')}\n`,
  )
  const base = (await site.git('rev-parse', 'main')).trim()
  await site.importCommits(
    `commit refs/heads/main\ncommitter ${author}\n${data(`Change\n\nSee ${base.slice(0, 9)}, 1234567 and https://example.com/<x>.`)}from ${base}\n` +
      files({
        'code.ts': numbered(1, 60).replace('line = 30\n', 'value = 30\n'),
        'x.png': '\x89PNG\0\x01',
        '<script>"\'\t': '<script>alert(1)</script>\n\x1b[31m \xe2\x80\xae\n',
        'not utf-8 \xff': 'caf\xe9',
        'crlf.txt': 'a\nb\n',
      }) +
      `R old new\nM 100644 inline new\n${data(`${numbered(1, 30)}more\n`)}D gone\nM 100755 inline run\n${data('run\n')}D link\nM 120000 inline link\n${data('code.ts')}\n` +
      `commit refs/heads/main\ncommitter ${author}\n${data('merge')}merge refs/heads/side\nM 100644 inline side\n${data('side\n')}\n` +
      `commit refs/heads/main\ncommitter ${author}\n${data('many')}${files(Object.fromEntries(Array.from({ length: 310 }, (_, index) => [`many/${index}`, `${index}\n`])))}M 100644 inline huge\n${data(numbered(1, 12_000))}\n`,
  )
  for (const [name, rev] of Object.entries({
    many: 'main',
    merge: 'main~1',
    change: 'main~2',
    base: 'main~3',
  }))
    ids[name] = (await site.git('rev-parse', rev)).trim()
  await site.push('--all')
})

// Rates of pages are limited by token.
beforeEach(async () => {
  const { token } = await site.service.client({ permissions: ['admin'] })
  client = await logIn(site.service.url, token)
})

after(() => site[Symbol.asyncDispose]())

async function show(path: string): Promise<string> {
  const { status, text } = await client.get(path)
  assert.equal(status, 200, `${path}: ${status}`)
  assert.ok(!/<script>(?!<)/.test(text.replace(/<script type="module"/, '')), path)
  return text
}

test('a short id or a name leads to the whole id', async () => {
  const { change = '' } = ids
  for (const [given, wanted] of [
    [change.slice(0, 7), change],
    [`${change.slice(0, 39)}?split`, `${change}?split=`],
    ['main', ids.many],
    [`${change.slice(0, 8)}.diff`, `${change}.diff`],
  ]) {
    const { status, location } = await client.get(`/r/site/commit/${given}`)
    assert.deepEqual([status, location], [303, `/r/site/commit/${wanted}`])
  }
})

test('a commit shows its message with links, and what happened to each file', async () => {
  const text = await show(`/r/site/commit/${ids.change}`)
  assert.match(
    text,
    new RegExp(
      `href="/r/site/commit/${ids.base}">${ids.base?.slice(0, 9)}</a>, 1234567 and <a class="linked" href="https://example.com/" rel="nofollow noreferrer">`,
    ),
  )
  assert.doesNotMatch(text, /[+−]0</)
  for (const part of [
    'Renamed, 9\\d% similar',
    'Now executable',
    'A file became a symbolic link',
    'Some lines are not UTF-8',
    'Deleted',
    'New file',
  ])
    assert.match(text, new RegExp(part))
  // Whether they are highlighted or, on a slow machine, not.
  assert.match(text, /<del>line<\/del> = (<[^>]*>)?30/)
  assert.match(text, /<ins>value<\/ins> = (<[^>]*>)?30/)
  assert.match(
    text,
    /<span class="unseen">U\+001B<\/span>\[31m <span class="unseen">U\+202E<\/span>/,
  )
  assert.match(text, /a<del><span class="unseen">U\+000D<\/span><\/del>/)
  assert.match(text, /&lt;script&gt;alert\(1\)/)
  // Both sides of an image.
  assert.match(
    text,
    new RegExp(`src="/r/site/raw/${ids.base}:x.png"[\\s\\S]*src="/r/site/raw/${ids.change}:x.png"`),
  )
})

test('a fold leads to the file with all of its lines', async () => {
  const text = await show(`/r/site/commit/${ids.change}`)
  const [, href = ''] =
    /<a href="([^"]*file=code\.ts[^"]*)"[^>]*>↕ 26 unchanged lines/.exec(text) ?? []
  const whole = await show(href.replaceAll('&amp;', '&').split('#')[0] ?? '')
  const lines = [...whole.matchAll(/<tr id="f1R(\d+)"/g)].map(([, line]) => Number(line))
  assert.deepEqual(
    lines,
    Array.from({ length: 60 }, (_, index) => index + 1),
  )
  assert.match(whole, /Only one file is shown/)
  assert.match(text, /#f1R34"[^>]*>↕ Rest of the file/)
  assert.doesNotMatch(whole, /Rest of the file/)
})

test('every line of the patch is on the page once, in order, unified and split', async () => {
  const { body } = await site.admin.get(`/repos/site/commits/${ids.change}?diff=1`)
  const count = (sign: string) =>
    body.diff.files
      .flatMap(({ hunks }: { hunks: { lines: string[] }[] }) => hunks.flatMap(({ lines }) => lines))
      .filter((line: string) => line.startsWith(sign)).length
  const unified = await show(`/r/site/commit/${ids.change}`)
  assert.equal(unified.match(/<tr id="\w+" class="add">/g)?.length, count('+'))
  assert.equal(unified.match(/<tr id="\w+" class="del">/g)?.length, count('-'))
  const split = await show(`/r/site/commit/${ids.change}?split`)
  assert.equal(split.match(/<td data-n="\d+" class="add">/g)?.length, count('+'))
  assert.equal(split.match(/<td data-n="\d+" class="del">/g)?.length, count('-'))
})

test('limits are visible, and what is beyond them is one link away', async () => {
  const text = await show(`/r/site/commit/${ids.many}`)
  assert.match(text, /changes of the first 300 of 311 files are shown/)
  assert.equal(text.match(/class="card diff-file"/g)?.length, 300)
  assert.match(text, /Only the first lines are shown[^<]*<a href="[^"]*file=huge"/)
  const alone = await show(`/r/site/commit/${ids.many}?file=huge`)
  assert.equal(alone.match(/class="add"/g)?.length, 10_000)
  assert.match(alone, /The page ends after 10,000 lines/)
})

test('a file whose name is not UTF-8 is shown alone', async () => {
  const text = await show(
    `/r/site/commit/${ids.change}?${new URLSearchParams({ file64: Buffer.from('not utf-8 \xff', 'latin1').toString('base64') })}`,
  )
  assert.equal(text.match(/class="card diff-file"/g)?.length, 1)
})

test('a merge is compared with its first parent', async () => {
  const text = await show(`/r/site/commit/${ids.merge}`)
  assert.match(text, /merge of 2 parents[\s\S]*compared with the first/)
  assert.match(text, /1 changed file/)
})

test('a comparison has the commits of one side, and says how far both are apart', async () => {
  const text = await show('/r/site/compare/side...main')
  assert.match(text, /<b>main<\/b> is 3 commits ahead of <b>side<\/b>/)
  assert.match(
    await show('/r/site/compare/main...side'),
    /<b>side<\/b> is 3 commits behind <b>main<\/b>/,
  )
  assert.match(await show('/r/site/compare/main...main'), /are the same commit/)
  const { status, location } = await client.get('/r/site/compare?base=side&head=main')
  assert.deepEqual([status, location], [303, '/r/site/compare/side...main'])
  assert.match(await show('/r/site/compare'), /name="head"/)
  for (const range of ['main', 'main...', 'a...b...c', 'main..side'])
    assert.equal((await client.get(`/r/site/compare/${range}`)).status, 404, range)
})

test('git applies the patches', async () => {
  const { text: patch, headers } = await client.get(`/r/site/commit/${ids.change}.patch`)
  assert.equal(headers.get('content-type'), 'text/plain; charset=utf-8')
  assert.match(
    patch,
    /^From [0-9a-f]{40,64} [\s\S]*^Subject: \[PATCH\] Change$[\s\S]*^# Not in this patch: x\.png: binary$/m,
  )
  const { text: diff } = await client.get(`/r/site/commit/${ids.merge}.diff`)
  const git = spawnGit(site.path, ['apply', '--check', '--cached'])
  git.stdin.end(diff)
  assert.deepEqual(await once(git, 'close'), [0, null])
  assert.match(diff, /^diff --git a\/side b\/side$/m)
  assert.match((await client.get('/r/site/compare/side...main.diff')).text, /^diff --git/m)
})

test('lines are unfolded in place, and copied without their numbers', {
  skip: without('chromium'),
}, async () => {
  const browser = await startBrowser()
  try {
    const { page, faults } = await openWindow(browser, {
      ...{ width: 1360, scheme: 'light', hasScripts: true },
      url: site.service.url,
      token: site.service.adminToken,
    })
    for (const query of ['', '&split']) {
      await page.goto(`/r/site/commit/${ids.change}?file=code.ts${query}`)
      await page.click('.fold a')
      await page.waitForSelector('td[data-n="1"]')
      const numbers = await page.$$eval('.diff-lines tr td:nth-last-child(2)', (cells) =>
        cells.map((cell) => (cell as unknown as { dataset: { n?: string } }).dataset.n),
      )
      const shown = numbers.filter((number) => number !== undefined)
      assert.deepEqual(
        shown,
        Array.from({ length: 33 }, (_, index) => `${index + 1}`),
      )
    }
    await page.click('.fold a')
    await page.waitForSelector('td[data-n="60"]')
    assert.equal(await page.$('.fold'), null)
    // The old side of the split view.
    await page.click('.diff-lines tr:first-child td:nth-child(2)')
    const copied = await page.evaluate(
      'getSelection().selectAllChildren(document.querySelector(".diff-lines tbody")); getSelection().toString()',
    )
    assert.equal(String(copied).trimEnd(), numbered(1, 60).trimEnd())
    assert.deepEqual(faults, [])
  } finally {
    await browser.close()
  }
})

test('in a narrow window both sides of a split diff have its width', {
  skip: without('chromium'),
}, async () => {
  const browser = await startBrowser()
  try {
    const token = site.service.adminToken
    const view = { width: 320, scheme: 'light', hasScripts: true } as const
    const { page } = await openWindow(browser, { url: site.service.url, token, ...view })
    await page.goto(`/r/site/commit/${ids.change}?file=code.ts&split`)
    const widths = await page.evaluate(
      `[...document.querySelectorAll('.diff-lines td:is(.add, .del):nth-child(2n)')].map((cell) => cell.offsetWidth)`,
    )
    assert.ok(Array.isArray(widths) && widths.length === 2)
    for (const width of widths) assert.ok(Number(width) > 200, `${width} pixels`)
  } finally {
    await browser.close()
  }
})

test('line numbers of four digits fit into a narrow window', {
  ...exhaustive,
  skip: without('chromium'),
}, async () => {
  const browser = await startBrowser()
  try {
    const token = site.service.adminToken
    const view = { width: 320, scheme: 'light', hasScripts: true } as const
    const { page } = await openWindow(browser, { url: site.service.url, token, ...view })
    for (const query of ['', '&split']) {
      await page.goto(`/r/site/commit/${ids.many}?file=huge${query}`)
      const heights = await page.evaluate(
        `[...document.querySelectorAll('.diff-lines tr')].slice(990, 1010).map((row) => row.offsetHeight)`,
      )
      assert.deepEqual(heights, new Array(20).fill(20))
    }
  } finally {
    await browser.close()
  }
})

test('commits and comparisons are accessible and quiet in every view', {
  ...exhaustive,
  skip: without('chromium'),
}, async () => {
  await assertAccessibleInEveryView(site.service, [
    `/r/site/commit/${ids.change}?file=code.ts`,
    `/r/site/commit/${ids.change}?file=code.ts&split`,
    '/r/site/compare/main...side',
  ])
})
