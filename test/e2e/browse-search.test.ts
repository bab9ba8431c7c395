// Tags: each-store

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { exhaustive } from '../support/exhaustive.ts'
import { git, temporaryFolder } from '../support/git.ts'
import { gitWithBytes, importOddHistory } from '../support/odd-history.ts'
import { type Service, startService } from '../support/service.ts'
import { pushFiles } from '../support/workflow-site.ts'

let service: Service

before(async () => {
  // Less than some files here have.
  service = await startService({ env: { SVC_GIT_MEMORY_MAX: '64MiB' } })
})

after(() => service[Symbol.asyncDispose]())

type Match = { path: string; pathBase64?: string; line: number; column: number; text: string }

const search = (name: string, query: Record<string, string>) =>
  service.admin.get(`/repos/${name}/search?${new URLSearchParams(query)}`)

function shown({ path, pathBase64, line, column, text }: Match): string {
  const bytes = pathBase64 ? Buffer.from(pathBase64, 'base64') : Buffer.from(path)
  return JSON.stringify([bytes.toString('latin1'), line, column, text])
}

/** What `git grep` finds, in the form of `shown`. */
async function grep(folder: string, ...args: string[]): Promise<string[]> {
  const options = ['grep', '-z', '-n', '--column', '-F', '-I', '--full-name']
  const output = await gitWithBytes(folder, [...options, ...args]).catch((error) => {
    if (error.code === 1) return Buffer.alloc(0)
    throw error
  })
  const matches = output.toString('latin1').matchAll(/main:([^\0]*)\0(\d+)\0(\d+)\0([^\n]*)\n/gy)
  return [...matches].map(([, path, line, column, text = '']) =>
    JSON.stringify([
      path,
      Number(line),
      Number(column),
      Buffer.from(text, 'latin1').toString('utf8'),
    ]),
  )
}

for (const seed of [4, 5])
  test(`a search finds what git grep finds: history ${seed}`, exhaustive, async () => {
    await using folder = await temporaryFolder()
    const name = `odd-${seed}`
    await git(folder.path, ['init', '--quiet', '--bare', '--initial-branch=main'])
    const files = await importOddHistory(folder.path, { seed, commits: 80 })
    await service.admin.post('/repos', { name })
    await git(folder.path, ['push', '--quiet', service.admin.remote(name), 'main'])
    for (const q of ['red', 'a.*b', '--option', 'über', 'AMBER', '\r', ' ', '[', 'nowhere']) {
      const bytes = Buffer.from(q).toString('latin1')
      const { status, body, text } = await search(name, { q, limit: '1000' })
      assert.equal(status, 200, text)
      assert.equal(body.isComplete, true)
      const found = await grep(folder.path, '-e', bytes, 'main')
      assert.deepEqual(body.matches.map(shown), found, q)
      const ignoring = await search(name, { q, limit: '1000', ignoreCase: 'true' })
      const folded = await grep(folder.path, '-i', '-e', bytes, 'main')
      assert.deepEqual(ignoring.body.matches.map(shown), folded, q)
    }
    for (const file of [...files, 'folder']) {
      const pathBase64 = Buffer.from(file, 'latin1').toString('base64')
      const { body } = await search(name, { q: 'e', limit: '1000', pathBase64 })
      const found = await grep(folder.path, '-e', 'e', 'main', '--', `:(literal)${file}`)
      assert.deepEqual(body.matches.map(shown), found, file)
    }
  })

test('limits of all matches and of those of a file are said', async () => {
  const [many, few] = ['x\n'.repeat(150), 'x\n'.repeat(10)]
  await pushFiles(service.admin, 'limits', { 'a.txt': many, 'b.txt': few })
  const ofFile = await search('limits', { q: 'x', limit: '1000' })
  assert.deepEqual(
    [ofFile.body.matches.length, ofFile.body.isComplete, ofFile.body.limits],
    [110, false, ['matches_per_file']],
  )
  const ofAll = await search('limits', { q: 'x', limit: '5' })
  assert.deepEqual(
    [ofAll.body.matches.length, ofAll.body.isComplete, ofAll.body.limits],
    [5, false, ['matches']],
  )
  const exact = await search('limits', { q: 'x', limit: '10', path: 'b.txt' })
  assert.deepEqual([exact.body.matches.length, exact.body.isComplete], [10, true])
})

test(
  'a file that git cannot read within its memory is left out, and named',
  exhaustive,
  async () => {
    const large = `${'y'.repeat(99)}\n`.repeat(1_000_000)
    await pushFiles(service.admin, 'large', { 'a.txt': 'y here\n', 'large.txt': large })
    const { status, body, text } = await search('large', { q: 'y here' })
    assert.equal(status, 200, text)
    assert.deepEqual(body.limits, ['file_size'])
    assert.deepEqual(body.leftOut, [{ path: 'large.txt' }])
    assert.deepEqual(
      body.matches.map(({ path }: Match) => path),
      ['a.txt'],
    )
  },
)

test('of a line of megabytes a part is returned', async () => {
  const long = `${'z'.repeat(10_000_000)}needle${'z'.repeat(5_000_000)}`
  await pushFiles(service.admin, 'line', { 'long.txt': long })
  const { body, text } = await search('line', { q: 'needle' })
  const [match] = body.matches
  assert.deepEqual([match.column, match.isCut], [10_000_001, true])
  assert.equal(match.text.slice(match.matchStart, match.matchStart + match.matchLength), 'needle')
  assert.ok(text.length < 2000)
})

test('binary files and submodules are not searched', async () => {
  await using folder = await temporaryFolder()
  const commit = await pushFiles(service.admin, 'kinds', { 'a.bin': 'x\0', 'b.txt': 'x' })
  await git(folder.path, ['clone', '--quiet', service.admin.remote('kinds'), '.'])
  await git(folder.path, ['update-index', '--add', '--cacheinfo', `160000,${commit},module`])
  await git(folder.path, ['commit', '--quiet', '-m', 'Module'])
  await git(folder.path, ['push', '--quiet', 'origin', 'HEAD'])
  const { body } = await search('kinds', { q: 'x' })
  assert.deepEqual(body.matches.map(shown), ['["b.txt",1,1,"x"]'])
})

test('what cannot be searched for is refused', async () => {
  await pushFiles(service.admin, 'refused', { 'a.txt': 'a' })
  for (const query of [{ q: '' }, { q: 'a\nb' }, { q: 'a\0b' }, {}, { q: 'x'.repeat(201) }]) {
    const { status, body } = await search('refused', query as Record<string, string>)
    assert.deepEqual([status, body.code], [400, 'invalid_request'])
    assert.match(body.detail, /parameter `q` /)
  }
  const { body } = await search('refused', { q: 'a', path: 'none' })
  assert.equal(body.code, 'path_not_found')
})
