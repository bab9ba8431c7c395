import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLogFields } from './pushed-commits.ts'

const id = (digit: string) => digit.repeat(40)

function head(commit: string, message: string, { parents = '', branches = '' } = {}): string {
  const people = ['Ada', 'ada@svc.test', '1700000000', 'Grace', 'grace@svc.test', '1700000001']
  return [commit, id('e'), parents, ...people, branches, `${message}\n`].join('\0')
}

function read(text: string | Buffer, size = Number.POSITIVE_INFINITY) {
  const fields = createLogFields()
  const bytes = Buffer.from(text as string)
  for (let at = 0; at < bytes.length; at += size) fields.push(bytes.subarray(at, at + size))
  return fields
}

const files = (names: string[]) => `\n${names.map((name) => `A\0${name}\0`).join('')}`

test('commits are parsed equally at all chunk boundaries', () => {
  const odd = 'a "b"\n\té'
  const text =
    `${head(id('a'), 'One\n\nbody', { parents: `${id('b')} ${id('c')}` })}\0` +
    `\nM\0A\0D\0${odd}\0T\0link\0A\0${id('d')}\0` +
    `${head(id('b'), '', { branches: 'refs/heads/x, refs/heads/a,b' })}\0` +
    `${head(id('c'), 'Last')}\0\nA\0z\0`
  const { commits } = read(text)
  assert.deepEqual(
    commits.map((commit) => [commit.id, commit.message, commit.parents, commit.branches]),
    [
      [id('a'), 'One\n\nbody', [id('b'), id('c')], []],
      [id('b'), '', [], ['refs/heads/x', 'refs/heads/a,b']],
      [id('c'), 'Last', [], []],
    ],
  )
  assert.deepEqual(commits[0]?.files, { added: [id('d')], removed: [odd], modified: ['A', 'link'] })
  assert.deepEqual(commits[0]?.committer, {
    name: 'Grace',
    email: 'grace@svc.test',
    at: '2023-11-14T22:13:21.000Z',
  })
  for (const size of [1, 2, 3, 7, 64]) assert.deepEqual(read(text, size).commits, commits)
})

test('invalid UTF-8 becomes U+FFFD', () => {
  const text = Buffer.concat([
    Buffer.from(`${head(id('a'), 'x')}\0\nA\0caf`),
    Buffer.from([0xe9]),
    Buffer.from('\0'),
  ])
  const [commit] = read(text).commits
  assert.deepEqual([commit?.files.added, commit?.isComplete], [['caf\u{fffd}'], true])
})

test('a long message is truncated at a character, and marked as truncated', () => {
  const [commit] = read(`${head(id('a'), `x${'é'.repeat(10_000)}`)}\0`).commits
  assert.equal(commit?.message, `x${'é'.repeat(8191)}`)
  assert.equal(commit?.isComplete, false)
})

test('each list has at most a thousand files per commit', () => {
  const names = Array.from({ length: 1001 }, (_, number) => `f${number}`)
  const log = read(`${head(id('a'), 'x')}\0${files(names)}${head(id('b'), 'y')}\0${files(['f'])}`)
  const [many, one] = log.commits
  assert.deepEqual(many?.files.added, names.slice(0, 1000))
  assert.deepEqual([many?.isComplete, one?.files.added, one?.isComplete], [false, ['f'], true])
})

test('file names are limited individually and in total', () => {
  const [commit] = read(`${head(id('a'), 'x')}\0${files(['a'.repeat(5000), 'b'])}`).commits
  assert.deepEqual([commit?.files.added, commit?.isComplete], [['b'], false])
  const names = Array.from({ length: 100 }, (_, number) => `${number}`.padEnd(4000, 'x'))
  const [other] = read(`${head(id('a'), 'x')}\0${files(names)}`).commits
  assert.deepEqual([other?.files.added.length, other?.isComplete], [32, false])
})

test('a commit with many parents and branches is not incomplete', () => {
  const branches = Array.from({ length: 2000 }, (_, number) => `refs/heads/b${number}`)
  const parents = Array.from({ length: 500 }, () => id('f')).join(' ')
  const [commit] = read(
    `${head(id('a'), 'x', { parents, branches: branches.join(', ') })}\0`,
  ).commits
  const some = commit?.branches ?? []
  assert.ok(some.length > 500 && some.length < 2000)
  assert.deepEqual(some, branches.slice(0, some.length))
  assert.equal(commit?.isComplete, true)
})
