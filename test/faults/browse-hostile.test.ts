// Tags: exhaustive
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, before, test } from 'node:test'
import { git, spawnGit, temporaryFolder } from '../support/git.ts'
import { toRounds } from '../support/rounds.ts'
import { type Service, startService } from '../support/service.ts'

let service: Service

before(async () => {
  service = await startService({ env: { SVC_BROWSE_SECONDS: '2' } })
})

after(() => service[Symbol.asyncDispose]())

const get = (name: string, action: string, query: Record<string, string>) =>
  service.admin.get(`/repos/${name}/${action}?${new URLSearchParams(query)}`)

/** Pushes a history that is written in the format of git-fast-import(1). */
async function push(name: string, input: Iterable<string>): Promise<void> {
  await using folder = await temporaryFolder()
  await git(folder.path, ['init', '--quiet', '--bare', '--initial-branch=main'])
  const child = spawnGit(folder.path, ['fast-import', '--quiet'])
  const ended = once(child, 'close')
  for (const part of input) {
    if (!child.stdin.write(part)) await once(child.stdin, 'drain')
  }
  child.stdin.end()
  const [exitCode] = await ended
  assert.equal(exitCode, 0)
  await service.admin.post('/repos', { name })
  await git(folder.path, ['push', '--quiet', service.admin.remote(name), 'main'])
}

function commit(index: number, files: Record<string, string>): string {
  const changes = Object.entries(files).map(
    ([path, content]) => `M 100644 inline ${path}\ndata ${content.length}\n${content}\n`,
  )
  const when = `${1_700_000_000 + index} +0000`
  return `commit refs/heads/main\ncommitter Ada <ada@example.com> ${when}\ndata 0\n${changes.join('')}\n`
}

/** A response within the limits, or the limit that was met. */
function assertLimited(status: number, body: { code?: string; detail?: string }): void {
  if (status === 200) return
  assert.deepEqual([status, body.code], [422, 'git_limit_exceeded'])
  assert.match(body.detail ?? '', /SVC_BROWSE_SECONDS|MiB/)
}

test('a file of many lines and commits is blamed in pieces', async () => {
  const commits = toRounds(8)
  const lines = Array.from({ length: 100_000 }, (_, index) => `line ${index}\n`)
  await push(
    'lines',
    (function* () {
      for (let index = 0; index < commits; index++) {
        for (let line = index; line < lines.length; line += commits)
          lines[line] = `${index} ${line}\n`
        yield commit(index, { 'a.txt': lines.join('') })
      }
    })(),
  )
  for (const start of [1, 50_001, 99_999]) {
    const { status, body, text } = await get('lines', 'blame', {
      path: 'a.txt',
      start: String(start),
    })
    assertLimited(status, body)
    assert.ok(text.length < 8 * 1024 * 1024)
  }
  const piece = await get('lines', 'blame', { path: 'a.txt', start: '50001', end: '50010' })
  assertLimited(piece.status, piece.body)
})

test('a line by each of many commits is blamed, or the limit is said', async () => {
  const lines: string[] = []
  await push(
    'commits',
    (function* () {
      for (let index = 0; index < toRounds(1000); index++) {
        lines.push(`${index}\n`)
        yield commit(index, { 'a.txt': lines.slice(-500).join('') })
      }
    })(),
  )
  const { status, body } = await get('commits', 'blame', { path: 'a.txt' })
  assertLimited(status, body)
  if (status === 200) assert.equal(body.commits.length, 500)
})

test('large files and lines meet limits that are said', async () => {
  const line = 'z'.repeat(12_000_000)
  await push('large', [
    commit(0, { 'huge.txt': 'some text\n'.repeat(1_700_000), 'line.txt': line, 'a.txt': 'text\n' }),
  ])
  const huge = await get('large', 'blame', { path: 'huge.txt' })
  assert.deepEqual([huge.status, huge.body.code], [422, 'git_limit_exceeded'])
  assert.match(huge.body.detail, /larger than 16 MiB/)
  const cut = await get('large', 'blame', { path: 'line.txt' })
  assert.equal(cut.status, 200)
  assert.ok(cut.text.length < 20_000)
  assert.deepEqual(cut.body.ranges[0].cutLines, [1])
  const found = await get('large', 'search', { q: 'text', limit: '1000' })
  assert.equal(found.status, 200)
  assert.equal(found.body.isComplete, false)
  assert.ok(found.body.limits.length > 0)
})

test('very many files are searched, or the limit is said', async () => {
  const count = toRounds(8000)
  const files = Array.from({ length: count }, (_, index): [string, string] => [
    `folder-${index % 300}/file-${index}.txt`,
    `number ${index}.\n`,
  ])
  await push('files', [commit(0, Object.fromEntries(files))])
  const { status, body } = await get('files', 'search', { q: `number ${count - 1}.` })
  assert.equal(status, 200)
  assert.equal(body.isComplete, body.limits.length === 0)
  if (body.isComplete) assert.equal(body.matches.length, 1)
  const part = await get('files', 'search', { q: 'number', path: 'folder-7', limit: '1000' })
  assert.equal(part.status, 200)
})

test('a text on every line of many files ends at the limits', async () => {
  const files = Array.from({ length: 500 }, (_, index): [string, string] => [
    `${index}.txt`,
    'x\n'.repeat(5000),
  ])
  await push('matches', [commit(0, Object.fromEntries(files))])
  const { body, text } = await get('matches', 'search', { q: 'x', limit: '1000' })
  assert.equal(body.matches.length, 1000)
  assert.deepEqual(body.limits.toSorted(), ['matches', 'matches_per_file'])
  assert.ok(text.length < 200_000)
})
