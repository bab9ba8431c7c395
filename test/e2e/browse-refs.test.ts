import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { randomHistory, readPages, startBrowseSite } from '../support/browse-site.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { logIn } from '../support/page-client.ts'

type Site = Awaited<ReturnType<typeof startBrowseSite>>

let site: Site

const branchCount = 60
// With more loose refs than this, only git reads them.
const looseCount = 1100

before(async () => {
  site = await startBrowseSite({ SVC_MAINTENANCE_PUSHES: 'off' })
  await site.importCommits(randomHistory({ seed: 3, commits: 200 }))
  const ids = (await site.git('rev-list', '--all')).split('\n')
  for (let branch = 0; branch < branchCount; branch++)
    await site.git('branch', `b/${branch}`, ids[(branch * 3) % ids.length] ?? '')
  await site.git('tag', 'light', 'main~1')
  await tag('full', 'main~2')
  await tag('nested', 'full')
  await tag('of-a-tree', 'main^{tree}')
  await site.push('refs/heads/*', 'refs/tags/*')
})

after(() => site[Symbol.asyncDispose]())

function tag(name: string, target: string): Promise<string> {
  const who = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com']
  return site.git(...who, 'tag', '-a', '-m', name, name, target)
}

type Row = { name: string; ahead: number | null; behind: number | null }

async function listed(kind: 'branches' | 'tags', query: string): Promise<Row[]> {
  const { status, body, text } = await site.admin.get(`/repos/site/${kind}?${query}`)
  assert.equal(status, 200, text)
  return body
}

const namesOf = (rows: { name: string }[]) => rows.map(({ name }) => name)

test(
  'many branches are compared with any base as git rev-list compares them',
  exhaustive,
  async () => {
    for (const base of ['main', 'side', 'b/7']) {
      for (const { name, ahead, behind } of await listed('branches', `base=${base}`)) {
        const range = `${name}...${base}`
        const counts = await site.git('rev-list', '--left-right', '--count', range)
        assert.equal(`${ahead}\t${behind}`, counts, range)
      }
    }
  },
)

async function assertAsGit(about: string): Promise<void> {
  const id = (rev: string) => site.git('rev-parse', rev)
  const commits = await Promise.all(['main', 'main~1', 'main~2', 'b/5', 'b/9'].map(id))
  const others = [await id('main^{tree}'), await id('full'), '0123456789'.repeat(4)]
  for (const kind of ['branches', 'tags'] as const) {
    const prefix = kind === 'tags' ? 'refs/tags/' : 'refs/heads/'
    const names = (await site.git('for-each-ref', '--format=%(refname)', prefix)).split('\n')
    const values = (await site.git('rev-parse', ...names)).split('\n')
    const peeled = (await site.git('rev-parse', ...names.map((name) => `${name}^{}`))).split('\n')
    for (const ids of [commits, others, [...commits, ...others], commits.slice(1, 2)]) {
      const isOne = (value = '') => ids.includes(value)
      const expected = names.filter((_, at) => isOne(values[at]) || isOne(peeled[at]))
      const rows = namesOf(await listed(kind, `limit=1000&pointsAt=${ids}`))
      assert.deepEqual(
        rows.map((name) => prefix + name),
        expected.slice(0, 1000),
        `${kind} of ${ids}, ${about}`,
      )
    }
  }
}

test(
  'refs that point to objects are those of git, wherever refs are stored',
  exhaustive,
  async () => {
    await assertAsGit('loose')
    const { path } = (await site.admin.get('/repos/site')).body
    await site.git('--git-dir', path, 'pack-refs', '--all')
    await assertAsGit('packed')
    await tag('later', 'main~1')
    await site.push('refs/tags/later')
    await assertAsGit('loose and packed')
    // Git itself did not always look through tags of tags.
    await site.git('tag', '--delete', 'nested')
    const many = Array.from({ length: looseCount }, (_, at) => `refs/tags/z-${at}`)
    await site.importCommits(many.map((ref) => `reset ${ref}\nfrom refs/heads/main\n\n`).join(''))
    await site.push('refs/tags/z-*', ':refs/tags/nested')
    await assertAsGit('read by git')
    const main = await site.git('rev-parse', 'main')
    const { rows } = await readPages(site.admin, `/repos/site/tags?limit=300&pointsAt=${main}`)
    assert.equal(rows.length, looseCount)
  },
)

test('what refs are to point to is given by up to 100 ids', async () => {
  const id = await site.git('rev-parse', 'main')
  for (const wrong of ['', 'main', id.slice(1), `${id},`, Array(101).fill(id).join()])
    assert.equal((await site.admin.get(`/repos/site/tags?pointsAt=${wrong}`)).status, 400, wrong)
  assert.equal((await listed('branches', `pointsAt=${Array(100).fill(id)}`)).length, 1)
})

test('refs are found by a part of their name, in any case', async () => {
  const branches = namesOf(await listed('branches', 'filter=B%2F5&counts=false'))
  assert.deepEqual(
    branches,
    ['b/5', ...Array.from({ length: 10 }, (_, at) => `b/5${at}`)],
    `${branches}`,
  )
  assert.deepEqual(namesOf(await listed('tags', 'filter=FUL')), ['full'])
  assert.deepEqual(await listed('tags', 'filter=no-such'), [])
  const { rows } = await readPages<Row>(site.admin, '/repos/site/branches?filter=b/5&limit=3')
  assert.deepEqual(namesOf(rows), branches)
})

test('the highest versions come first, from one page to the next', async () => {
  const versions = ['v1.10', 'v1.10-rc1', 'v1.9', 'v1.2']
  for (const version of versions.toSorted()) await site.git('tag', version, 'main')
  await site.push('refs/tags/v*')
  const filtered = 'filter=v1&order=version'
  assert.deepEqual(namesOf(await listed('tags', filtered)), versions)
  for (const limit of [1, 3]) {
    const { rows } = await readPages<Row>(site.admin, `/repos/site/tags?${filtered}&limit=${limit}`)
    assert.deepEqual(namesOf(rows), versions)
  }
  const { rows } = await readPages<Row>(site.admin, '/repos/site/tags?order=version&limit=300')
  const byName = await readPages<Row>(site.admin, '/repos/site/tags?limit=1000')
  assert.deepEqual(namesOf(rows).sort(), namesOf(byName.rows).sort())
  assert.equal((await site.admin.get('/repos/site/tags?order=newest')).status, 400)
  await site.push('--delete', ...versions.map((version) => `refs/tags/${version}`))
})

test('a list keeps its entity tag when other refs change', async () => {
  const main = await site.git('rev-parse', 'main')
  const tagsOf = async () => {
    const paths = ['branches?limit=3', `branches?pointsAt=${main}`, 'tags?limit=3']
    const responses = await Promise.all(paths.map((path) => site.admin.get(`/repos/site/${path}`)))
    return responses.map(({ headers }) => headers.get('etag'))
  }
  const before = await tagsOf()
  await site.push('main~3:refs/heads/zz-other')
  assert.deepEqual(await tagsOf(), before)
  await site.push('main:refs/heads/b/0-first')
  const [first, atMain, tags] = await tagsOf()
  assert.notEqual(first, before[0])
  assert.notEqual(atMain, before[1])
  assert.equal(tags, before[2])
})

test('commits show their branches and tags among many others, and not more than a line can hold', async () => {
  const client = await logIn(site.service.url, site.service.adminToken)
  const more = Array.from({ length: 20 }, (_, at) => `main:refs/tags/more-${at}`)
  await site.push('main~4:refs/heads/zzz', ...more)
  const log = await client.get('/r/site/log/main')
  assert.match(log.text, /href="\/r\/site\/src\/zzz">/)
  assert.match(log.text, /and more</)
  const commit = await client.get(`/r/site/commit/${await site.git('rev-parse', 'main~4')}`)
  assert.match(commit.text, /class="badge" href="\/r\/site\/src\/zzz">/)
})
