// Tags: each-store

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { fuzzing } from '../support/fuzz.ts'
import { createProject, git, type Project, spawnGit, temporaryFolder } from '../support/git.ts'
import { onlyLocal } from '../support/kind-of-store.ts'
import { idDigits } from '../support/object-format.ts'
import { writeOddTrees } from '../support/odd-trees.ts'
import { createRandom } from '../support/random.ts'
import { toRounds } from '../support/rounds.ts'
import { type Client, type Service, startService } from '../support/service.ts'

let service: Service
let owner: Client
let project: Project

before(async () => {
  service = await startService()
  owner = await service.client({ username: 'ada' })
  project = await createProject()
  await owner.post('/repos', { name: 'site' })
  await project.git('tag', 'light')
  await project.git('tag', '-a', '-m', 'A first\n\nversion', 'v1')
  await project.git('tag', '-a', '-m', 'of a tag', 'v1-again', 'v1')
  await project.git('tag', 'tree', 'HEAD^{tree}')
  await project.git('tag', 'blob', 'HEAD:readme.txt')
  await project.git('switch', '--quiet', '--create', 'side')
  await project.commit('one')
  await project.commit('two')
  await project.git('switch', '--quiet', 'main')
  await project.commit('three')
  await project.git('push', '--quiet', owner.remote('site'), '--all')
  await project.git('push', '--quiet', owner.remote('site'), '--tags')
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

async function newSite(name: string, from: string): Promise<void> {
  await owner.post('/repos', { name })
  await git(from, ['push', '--quiet', owner.remote(name), 'main'])
}

/** Calls the API with headers. */
function send(path: string, headers: Record<string, string> = {}, method = 'GET') {
  const authorization = `Bearer ${owner.token}`
  return fetch(service.url + path, { method, headers: { authorization, ...headers } })
}

async function fastImport(path: string, input: string): Promise<void> {
  const child = spawnGit(path, ['fast-import', '--quiet', '--force'])
  const ended = new Promise((resolve) => child.on('close', resolve))
  child.stdin.end(input)
  assert.equal(await ended, 0)
}

test('branches are listed with their distance from a base, page by page', async () => {
  await owner.put('/repos/site/protections/branches/main')
  const { body } = await owner.get('/repos/site/branches')
  const shown = body.map((branch: Record<string, unknown>) => [
    ...[branch.name, branch.isDefault, branch.isProtected, branch.ahead, branch.behind],
  ])
  assert.deepEqual(shown, [
    ['main', true, true, 0, 0],
    ['side', false, false, 2, 1],
  ])
  assert.equal(body[1].id, await project.git('rev-parse', 'side'))
  assert.equal(body[1].commit.summary, 'Add two')
  const uncounted = await owner.get('/repos/site/branches?counts=false')
  assert.deepEqual([uncounted.body[1].ahead, uncounted.body[1].behind], [null, null])
  const ofSide = await owner.get('/repos/site/branches?base=side&limit=1')
  assert.deepEqual([ofSide.body[0].ahead, ofSide.body[0].behind], [1, 2])
  const [, next = ''] = /^<([^>]+)>; rel="next"$/.exec(ofSide.headers.get('link') ?? '') ?? []
  const last = await owner.get(next)
  assert.deepEqual(
    last.body.map(({ name }: { name: string }) => name),
    ['side'],
  )
  assert.equal(last.headers.get('link'), null)
  assert.equal((await owner.get('/repos/site/branches?base=none')).status, 404)
})

test('a list that has not changed is not sent again', async () => {
  for (const path of ['branches', 'tags', 'tree', 'tree?recursive=true', 'file?path=readme.txt']) {
    const url = `/repos/site/${path}`
    const etag = await until('it is complete', async () => {
      const { body, headers } = await owner.get(url)
      return body?.lastCommitsComplete !== false && headers.get('etag')
    })
    const again = await send(url, { 'if-none-match': String(etag) })
    assert.equal(again.status, 304, path)
    assert.equal(await again.text(), '')
  }
  const absent = await send('/repos/site/tree?path=none', { 'if-none-match': '*' })
  assert.equal(absent.status, 404)
})

test('tags of commits, tags, trees and blobs are listed', async () => {
  const { body } = await owner.get('/repos/site/tags')
  const commit = await project.git('rev-parse', 'v1^{}')
  const shown = body.map((tag: Record<string, unknown>) => [
    ...[tag.name, tag.type, tag.commit, tag.message],
  ])
  assert.deepEqual(shown, [
    ['blob', 'blob', null, null],
    ['light', 'commit', commit, null],
    ['tree', 'tree', null, null],
    ['v1', 'tag', commit, 'A first\n\nversion\n'],
    ['v1-again', 'tag', commit, 'of a tag\n'],
  ])
  assert.equal(body[3].id, await project.git('rev-parse', 'v1'))
  assert.equal(body[3].tagger.email, 'ada@example.com')
  const blob = await owner.get('/repos/site/tree?rev=blob')
  assert.deepEqual([blob.status, blob.body.code], [404, 'revision_not_found'])
})

test('an empty repository has no branches, and no folder', async () => {
  await owner.post('/repos', { name: 'empty' })
  assert.deepEqual((await owner.get('/repos/empty/branches')).body, [])
  assert.deepEqual((await owner.get('/repos/empty/tags')).body, [])
  const { status, body } = await owner.get('/repos/empty/tree')
  assert.deepEqual([status, body.code], [404, 'revision_not_found'])
})

/** All entries of a listing, in pages of a size. */
async function listAll(path: string, limit: number) {
  const entries: Record<string, unknown>[] = []
  const limits = new Set<string>()
  for (let next = `${path}&limit=${limit}`; next !== ''; ) {
    const { status, body, headers, text } = await owner.get(next)
    assert.equal(status, 200, text)
    assert.ok(body.entries.length <= limit)
    entries.push(...body.entries)
    for (const one of body.limits) limits.add(one)
    const [, link = ''] = /^<([^>]+)>; rel="next"$/.exec(headers.get('link') ?? '') ?? []
    assert.equal(body.nextCursor !== null, link !== '')
    next = link
  }
  return { entries, limits: [...limits] }
}

/** The entries as git lists them: mode, id, size, and path in base64. */
function lsTree(path: string, commit: string, ...options: string[]): string[] {
  const args = ['-C', path, 'ls-tree', '-z', '-l', ...options, commit]
  const lines = execFileSync('git', args, { encoding: 'latin1' }).split('\0').slice(0, -1)
  return lines.map((line) => {
    const [, mode, , id, size, name = ''] = /^(\d+) (\w+) (\w+) +(-|\d+)\t(.*)$/s.exec(line) ?? []
    return `${mode} ${id} ${size} ${Buffer.from(name, 'latin1').toString('base64')}`
  })
}

function toLine({ mode, id, size, path, pathBase64 }: Record<string, unknown>): string {
  return `${mode} ${id} ${size ?? '-'} ${pathBase64 ?? Buffer.from(String(path)).toString('base64')}`
}

test('folders and files of odd random histories are those of git', async (t) => {
  const { seed } = fuzzing()
  t.diagnostic(`SVC_FUZZ_SEED=${seed}`)
  await using odd = await createProject()
  const commits = await writeOddTrees(odd.path, createRandom(seed), { commits: 40 })
  await newSite('odd', odd.path)
  const reachable = new Set((await odd.git('rev-list', 'main')).split('\n'))
  const shown = commits.filter(({ id }) => reachable.has(id)).slice(-toRounds(3))
  for (const { id, files } of shown) {
    const flat = await listAll(`/repos/odd/tree?rev=${id}`, 3)
    assert.deepEqual(flat.entries.map(toLine), lsTree(odd.path, id))
    const deep = await listAll(`/repos/odd/tree?rev=${id}&recursive=true`, 4)
    assert.deepEqual(deep.entries.map(toLine), lsTree(odd.path, id, '-r', '-t'))
    for (const [name, { mode, content }] of files) {
      const path = encodeURIComponent(Buffer.from(name, 'latin1').toString('base64'))
      const answer = await send(`/repos/odd/file?rev=${id}&pathBase64=${path}`, {
        accept: mode === '100644' ? '*/*' : 'application/json',
      })
      if (mode === '160000') {
        assert.equal(answer.status, 404)
        assert.match(
          await answer.text(),
          /is a submodule: commit [12]{40,64} of another repository/,
        )
      } else if (mode === '100644') {
        assert.equal(await answer.text(), content)
        assert.equal(answer.headers.get('content-type'), 'text/plain; charset=utf-8')
      } else {
        const body: Record<string, unknown> = JSON.parse(await answer.text())
        assert.deepEqual([body.mode, body.content, body.encoding], [mode, content, 'utf-8'])
      }
    }
  }
})

test('entries have their last commits, and a push changes only some of them', async () => {
  const complete = () =>
    until('all last commits are known', async () => {
      const { body } = await owner.get('/repos/site/tree?rev=side')
      return body.lastCommitsComplete && body
    })
  const first = await complete()
  const summaries = (body: { entries: { name: string; lastCommit: { summary: string } }[] }) =>
    body.entries.map(({ name, lastCommit }) => [name, lastCommit.summary])
  assert.deepEqual(summaries(first), [
    ['one', 'Add one'],
    ['readme.txt', 'Add readme.txt'],
    ['two', 'Add two'],
  ])
  await project.git('switch', '--quiet', 'side')
  await project.commit('one', 'changed')
  await project.git('push', '--quiet', owner.remote('site'), 'side')
  const second = await complete()
  assert.equal(second.entries[0].lastCommit.id, await project.git('rev-parse', 'side'))
  assert.deepEqual(second.entries.slice(1), first.entries.slice(1))
  await project.git('switch', '--quiet', 'main')
})

test('a path that is not there, a folder and a file in place of each other are refused', async () => {
  const refusals = {
    'tree?path=none': 'path_not_found',
    'tree?path=readme.txt': 'path_not_found',
    'tree?path=readme.txt/x': 'path_not_found',
    file: 'invalid_request',
    'file?path=none': 'path_not_found',
    'file?path=a/../readme.txt': 'invalid_request',
    'file?path=/readme.txt': 'invalid_request',
    'tree?cursor=x': 'invalid_request',
    [`tree?cursor=${'0'.repeat(idDigits)}-1`]: 'revision_not_found',
    'tree?rev=main~1': 'revision_not_found',
  }
  for (const [path, code] of Object.entries(refusals))
    assert.equal((await owner.get(`/repos/site/${path}`)).body?.code, code, path)
  const { id } = (await owner.get('/repos/site/branches')).body[0]
  const beyond = await owner.get(`/repos/site/tree?recursive=true&cursor=${id}-9.9.9`)
  assert.equal(beyond.body.code, 'invalid_request')
})

test('binary and large files are bytes, streamed with their length, and JSON says what it lacks', async () => {
  await using large = await temporaryFolder()
  await git(large.path, ['init', '--quiet', '--bare'])
  const size = 5 * 1024 * 1024
  const commit =
    'commit refs/heads/main\ncommitter Ada <ada@example.com> 1700000000 +0000\ndata 0\n'
  const files = [`M 100644 inline large\ndata ${size}\n${'line\n'.repeat(size / 5)}`]
  files.push('M 100644 inline binary\ndata 3\n\0a\n')
  await fastImport(large.path, `${commit}${files.join('\n')}\n`)
  await newSite('large', large.path)
  const raw = await send('/repos/large/file?path=large')
  assert.equal(raw.headers.get('content-length'), String(size))
  assert.equal(raw.headers.get('content-type'), 'text/plain; charset=utf-8')
  assert.equal(raw.headers.get('x-content-type-options'), 'nosniff')
  const bytes = Buffer.from(await raw.arrayBuffer())
  assert.equal(bytes.length, size)
  assert.ok(bytes.equals(Buffer.from('line\n'.repeat(size / 5))))
  const head = await send('/repos/large/file?path=large', {}, 'HEAD')
  assert.equal(head.headers.get('content-length'), String(size))
  // More than there are permits: those of HEAD were given back.
  for (let count = 0; count < 20; count++)
    assert.equal((await send('/repos/large/file?path=large', {}, 'HEAD')).status, 200)
  const plain = await send('/repos/large/file?path=large', { accept: 'application/json;q=0, */*' })
  assert.equal(plain.headers.get('content-type'), raw.headers.get('content-type'))
  await plain.arrayBuffer()
  const asJson = await send('/repos/large/file?path=large', { accept: 'application/json' })
  const body = (await asJson.json()) as Record<string, unknown>
  assert.deepEqual([body.size, body.content, body.isBinary], [size, null, null])
  assert.match(String(body.limits), /1 MiB/)
  const binary = await send('/repos/large/file?path=binary')
  assert.equal(binary.headers.get('content-type'), 'application/octet-stream')
  const inJson = await send('/repos/large/file?path=binary', { accept: 'application/json' })
  const { isBinary, encoding, content } = (await inJson.json()) as Record<string, unknown>
  assert.deepEqual([isBinary, encoding, content], [true, 'base64', 'AGEK'])
  assert.notEqual(binary.headers.get('etag'), inJson.headers.get('etag'))
})

test(
  'a folder of 20,000 entries, and folders of thousands of levels, are listed within limits',
  exhaustive,
  async () => {
    await using hostile = await temporaryFolder()
    await git(hostile.path, ['init', '--quiet', '--bare'])
    const commit =
      'commit refs/heads/main\ncommitter Ada <ada@example.com> 1700000000 +0000\ndata 0\n'
    const one = execFileSync('git', ['--git-dir', hostile.path, 'hash-object', '-w', '--stdin'], {
      input: 'one',
    })
    const line = `100644 blob ${one.toString().trim()}`
    const lines = Array.from({ length: 20_000 }, (_, index) => `${line}\tfile-${index}\n`)
    const wide = execFileSync('git', ['--git-dir', hostile.path, 'mktree'], {
      input: lines.join(''),
    })
    const files = [
      `M 040000 ${wide.toString().trim()} wide`,
      `M 100644 inline deep/${'x/'.repeat(2046)}end\ndata 3\none`,
    ]
    await fastImport(hostile.path, `${commit}${files.join('\n')}\n`)
    await newSite('hostile', hostile.path)
    const page = await owner.get('/repos/hostile/tree?path=wide')
    assert.deepEqual([page.body.entries.length, page.body.lastCommitsComplete], [1000, false])
    assert.match(String(page.body.limits), /more than 10,000 entries/)
    const next = await owner.get(`/repos/hostile/tree?path=wide&cursor=${page.body.nextCursor}`)
    assert.notEqual(next.body.entries[0].name, page.body.entries[0].name)
    const { entries, limits } = await listAll('/repos/hostile/tree?path=deep&recursive=true', 1000)
    assert.equal(entries.length, 2046)
    assert.match(String(limits), /more than 4,096 bytes/)
    const top = await owner.get('/repos/hostile/tree')
    assert.equal(top.status, 200)
  },
)

test('20,000 branches are listed page by page', { skip: onlyLocal }, async () => {
  await newSite('many', project.path)
  const { path } = (await service.admin.get('/repos/many')).body
  const id = await project.git('rev-parse', 'main')
  const names = Array.from({ length: 20_000 }, (_, index) => `b-${10_000 + index}`).sort()
  const header = '# pack-refs with: peeled fully-peeled sorted \n'
  const lines = names.map((name) => `${id} refs/heads/${name}\n`)
  await writeFile(join(path, 'packed-refs'), header + lines.join(''))
  const { body, headers } = await owner.get('/repos/many/branches?limit=1000')
  assert.deepEqual(
    body.map(({ name }: { name: string }) => name),
    names.slice(0, 1000),
  )
  assert.deepEqual([body[999].ahead, body[999].behind], [0, 0])
  assert.match(headers.get('link') ?? '', /rel="next"/)
  const cursor = Buffer.from('b-29998').toString('base64url')
  const last = await owner.get(`/repos/many/branches?cursor=${cursor}`)
  assert.deepEqual(
    last.body.map(({ name }: { name: string }) => name),
    ['b-29999', 'main'],
  )
})

test('a path may end with a slash, as shells complete the names of folders', async () => {
  await using folder = await createProject()
  await service.admin.post('/repos', { name: 'slashes' })
  await mkdir(join(folder.path, 'src'))
  await writeFile(join(folder.path, 'src/main.c'), 'int main;\n')
  await folder.git('add', '.')
  await folder.git('commit', '--quiet', '-m', 'Add a folder')
  await folder.git('push', '--quiet', service.admin.remote('slashes'), 'HEAD:main')
  const get = (call: string) => service.admin.get(`/repos/slashes/${call}`)
  const { body: commit } = await get('commits?limit=1')
  for (const call of [
    'tree?path=src',
    'commits?path=src',
    'search?rev=main&q=main&path=src',
    'archive?rev=main&format=tar&path=src',
    'file?path=src/main.c',
    'blame?path=src/main.c',
    `commits/${commit[0].id}?diff=true&path=src`,
    `compare?base=main&head=main&path=src`,
    `tree?pathBase64=${encodeURIComponent(Buffer.from('src').toString('base64'))}`,
  ]) {
    const plain = await get(call)
    const slashed = call.includes('Base64')
      ? `tree?pathBase64=${Buffer.from('src/').toString('base64')}`
      : `${call}/`
    const answer = await get(slashed)
    assert.deepEqual(
      [plain.status, answer.status],
      [200, 200],
      `${call}: ${answer.text.slice(0, 200)}`,
    )
    assert.equal(answer.text, plain.text, call)
  }
  for (const path of ['src//', '//', '/src/'])
    assert.equal((await get(`tree?path=${path}`)).status, 400)
  for (const call of ['tree', 'commits', 'archive', 'file', 'search'])
    for (const path of ['!!', 'cmVhZG1lLnR4dA==!', 'cmVh%20ZG1l', 'cmVhZG1lLnR4d'])
      assert.equal((await get(`${call}?q=a&pathBase64=${path}`)).status, 400, `${call} ${path}`)
})
