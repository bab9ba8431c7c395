// Tags: each-store

import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { oddNames, randomHistory, readPages, startBrowseSite } from '../support/browse-site.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { git, temporaryFolder } from '../support/git.ts'
import { idDigits } from '../support/object-format.ts'

type Site = Awaited<ReturnType<typeof startBrowseSite>>

let site: Site

before(async () => {
  site = await startBrowseSite()
  await site.importCommits(randomHistory({ seed: 7, commits: 230 }))
  await site.push('main', 'side')
})

after(() => site[Symbol.asyncDispose]())

async function logOf(args: string[], path?: string): Promise<string[]> {
  const paths = path === undefined ? [] : ['--', path]
  const output = await git(site.path, ['--literal-pathspecs', 'rev-list', ...args, ...paths])
  return output.stdout.split('\n').filter((line) => line !== '')
}

const isText = (name: string) => Buffer.from(name, 'latin1').toString('utf8') === name

const idsOf = (rows: { id: string }[]) => rows.map(({ id }) => id)
const listed = async (query: string) =>
  idsOf((await readPages(site.admin, `/repos/site/commits?${query}`)).rows)

test('history is that of git log, in any page size', async () => {
  for (const rev of ['main', 'side']) {
    const expected = await logOf([rev])
    for (const limit of [1000, 100, 30, 7])
      assert.deepEqual(await listed(`rev=${rev}&limit=${limit}`), expected, `${rev} ${limit}`)
  }
  assert.deepEqual(await listed('limit=1000'), await logOf(['main']))
})

test('history of a path is that of git log, for any name', async () => {
  for (const name of [...oddNames, 'folder', 'folder/deep']) {
    const bytes = Buffer.from(name, 'latin1')
    const text = bytes.toString('utf8')
    const isText = Buffer.from(text).equals(bytes)
    const query = isText
      ? `path=${encodeURIComponent(text)}`
      : `pathBase64=${encodeURIComponent(bytes.toString('base64'))}`
    const found = await listed(`rev=main&limit=50&${query}`)
    if (isText) assert.deepEqual(found, await logOf(['main'], text), name)
    // Node passes arguments as UTF-8 only; a pattern stands for the bytes.
    else
      assert.deepEqual(
        found,
        (await git(site.path, ['rev-list', 'main', '--', 'not utf-8 ??'])).stdout.split('\n'),
      )
    assert.ok(found.length > 0, name)
  }
  assert.deepEqual(await listed('path=no/such'), [])
})

test(
  'the newest commit of a path is that of git log, and says whether there are older ones',
  exhaustive,
  async () => {
    let alone = 0
    const revs = (await logOf(['--reverse', 'main'])).filter((_, index) => index % 16 === 0)
    for (const rev of revs)
      for (const path of [...oddNames.filter(isText), 'folder', 'folder/deep', 'no/such']) {
        const [newest, ...older] = await logOf(['--max-count=2', rev], path)
        const query = new URLSearchParams({ rev, path, limit: '1' })
        const { body, headers } = await site.admin.get(`/repos/site/commits?${query}`)
        assert.deepEqual(idsOf(body), newest === undefined ? [] : [newest], `${rev} ${path}`)
        assert.equal(headers.has('link'), older.length > 0, `${rev} ${path}`)
        if (newest !== undefined && older.length === 0) alone += 1
      }
    assert.ok(alone > 0)
  },
)

test('an author is a fixed string, without regard to case', async () => {
  for (const author of ['ada@', 'HOPPER <g', 'a.*b', '.', 'Éva', '<', 'no one else', '--all']) {
    const expected = await logOf(['main', '-F', '-i', `--author=${author}`])
    assert.deepEqual(await listed(`author=${encodeURIComponent(author)}&limit=9`), expected, author)
  }
  assert.ok((await listed('author=a.*B')).length > 0)
  for (const author of ['', 'a%0Ab', 'a%00'])
    assert.equal((await site.admin.get(`/repos/site/commits?author=${author}`)).status, 400)
})

test('history is limited by time', async () => {
  const all = (await site.admin.get('/repos/site/commits?limit=1000')).body
  const { at } = all[60].committer
  const seconds = at / 1000
  for (const [query, args] of [
    [`since=${at}`, [`--since=@${seconds} +0000`]],
    [`since=${at - 999}`, [`--since=@${seconds} +0000`]],
    [`since=${at + 1}`, [`--since=@${seconds + 1} +0000`]],
    [`until=${at}`, [`--until=@${seconds} +0000`]],
    [`until=${at + 999}`, [`--until=@${seconds} +0000`]],
    [
      `since=${at - 7_200_000}&until=${at}`,
      [`--since=@${seconds - 7200} +0000`, `--until=@${seconds} +0000`],
    ],
    ['since=0', []],
    [`since=${2 ** 33 * 1000}`, [`--since=@${2 ** 33} +0000`]],
  ] as const)
    assert.deepEqual(await listed(`${query}&limit=20`), await logOf(['main', ...args]), query)
  const both = await listed(`since=${at - 7_200_000}&until=${at}&author=grace&path=folder`)
  const args = [`--since=@${seconds - 7200} +0000`, `--until=@${seconds} +0000`, '--author=grace']
  assert.deepEqual(both, await logOf(['main', ...args], 'folder'))
})

test('pages stay on the commit of the first one, and say nothing of a next one at the end', async () => {
  const first = await site.admin.get('/repos/site/commits?rev=main&limit=3')
  const link = first.headers.get('link') ?? ''
  const [tip] = first.body
  assert.ok(link.includes(`rev=${tip.id}`), link)
  const { addresses } = await readPages(site.admin, '/repos/site/commits?rev=side&limit=100')
  assert.equal(addresses.length, Math.ceil((await logOf(['side'])).length / 100))
  const again = await fetch(`${site.service.url}/repos/site/commits?rev=main&limit=3`, {
    headers: {
      authorization: `Bearer ${site.service.adminToken}`,
      'if-none-match': first.headers.get('etag') ?? '',
    },
  })
  assert.deepEqual([again.status, await again.text()], [304, ''])
  // Also from the cache.
  const repeated = await site.admin.get('/repos/site/commits?rev=main&limit=3')
  assert.deepEqual([repeated.text, repeated.headers.get('link')], [first.text, link])
})

test('the next page is of the same commit when the branch has moved, also with the cursor alone', async () => {
  await site.git('branch', 'moving', 'main~3')
  await site.push('moving')
  const [expected, first] = [
    await logOf(['moving']),
    await site.admin.get('/repos/site/commits?rev=moving&limit=5'),
  ]
  await site.push('main:moving')
  const link = first.headers.get('link') ?? ''
  const [, next = '', cursor = ''] = /<(.*cursor=([^&>]*).*)>/.exec(link) ?? []
  for (const address of [next, `/repos/site/commits?rev=moving&limit=5&cursor=${cursor}`])
    assert.deepEqual(idsOf((await site.admin.get(address)).body), expected.slice(5, 10))
})

test('a commit is that of git', async () => {
  const [row] = (await site.admin.get('/repos/site/commits?rev=main&limit=1')).body
  const format = '%H%n%T%n%P%n%an%n%ae%n%at%n%cn%n%ce%n%ct%n%B'
  const shown = await site.git('log', '-1', `--format=${format}`, 'main')
  const [id, tree, parents, name, email, at, committer, address, time, ...message] =
    shown.split('\n')
  assert.deepEqual([row.id, row.tree, row.parents.join(' ')], [id, tree, parents])
  assert.deepEqual(
    [row.author, row.committer],
    [
      { name, email, at: Number(at) * 1000, timeZone: '+0100' },
      { name: committer, email: address, at: Number(time) * 1000, timeZone: '-0230' },
    ],
  )
  assert.equal(row.message, `${message.join('\n')}\n`)
  const single = await site.admin.get(`/repos/site/commits/${row.id.slice(0, 12)}`)
  assert.deepEqual(single.body, row)
})

test('a page of large messages is shorter', async () => {
  const lines: string[] = []
  for (let mark = 1; mark <= 100; mark++)
    lines.push(
      `commit refs/heads/large\ncommitter A <a@x> ${mark} +0000`,
      `data 30000\n${'x'.repeat(30_000)}`,
    )
  await site.importCommits(`${lines.join('\n')}\n`)
  await site.push('large')
  const { rows, addresses } = await readPages(
    site.admin,
    '/repos/site/commits?rev=large&limit=1000',
  )
  assert.deepEqual(idsOf(rows), await logOf(['large']))
  assert.equal(addresses.length, 2)
})

test('revisions are no expressions', async () => {
  for (const rev of ['main~1', 'main^', 'main..side', '--all', 'HEAD', '@'])
    assert.equal(
      (await site.admin.get(`/repos/site/commits?rev=${encodeURIComponent(rev)}`)).body.code,
      'revision_not_found',
      rev,
    )
})

test('a parent that a commit names several times is listed once', async () => {
  const [tree, parent] = await Promise.all(['side^{tree}', 'side~3'].map(idOf))
  const repeated = Array.from({ length: 3 }, () => `parent ${parent}\n`).join('')
  const tip = await writeCommit(`tree ${tree}\n${repeated}`)
  await site.push(`${tip}:refs/heads/repeated`)
  assert.deepEqual(await listed('rev=repeated&limit=9'), await logOf([tip]))
})

test('a history of many thousand parents is that of git log', exhaustive, async () => {
  const tree = await idOf('side^{tree}')
  const parent = await idOf('side')
  const lines = `parent ${parent}\n`.repeat(800_000 / idDigits)
  let tip = parent
  for (let index = 0; index < 5; index++)
    tip = await writeCommit(`tree ${tree}\nparent ${tip}\n${lines}`)
  const wide = await writeCommit(
    `tree ${tree}\n${(await logOf(['main'])).map((id) => `parent ${id}\n`).join('')}`,
  )
  await site.push(`${tip}:refs/heads/parents`, `${wide}:refs/heads/wide`)
  assert.deepEqual(await listed('rev=parents&limit=50'), await logOf([tip]))
  assert.deepEqual(await listed('rev=wide&limit=50'), await logOf([wide]))
})

test('a revision that is too long for a file is not found', async () => {
  for (const rev of ['a'.repeat(300), '\u2603'.repeat(1000), `${'a'.repeat(200)}/`.repeat(5)]) {
    const { status, body } = await site.admin.get(
      `/repos/site/commits?rev=${encodeURIComponent(rev)}`,
    )
    assert.deepEqual([status, body.code], [404, 'revision_not_found'])
  }
})

async function idOf(revision: string): Promise<string> {
  return (await site.git('rev-parse', revision)).trim()
}

async function writeCommit(head: string): Promise<string> {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'commit')
  const person = 'Ada <ada@example.com> 1800000000 +0000'
  await writeFile(file, `${head}author ${person}\ncommitter ${person}\n\nmany\n`)
  return (await site.git('hash-object', '-t', 'commit', '-w', file)).trim()
}
