import assert from 'node:assert/strict'
import { once } from 'node:events'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { createProject, git as runGit, spawnGit } from '../../../test/support/git.ts'
import { gitLimits } from '../../../test/support/git-limits.ts'
import { importHistory } from '../../../test/support/history.ts'
import { createGit, type Git } from '../process/git-process.ts'
import { createLogFields, readHead, readPushedCommits } from './pushed-commits.ts'

const zero = '0'.repeat(40)
const options = { settings: gitLimits, owner: 'test' }
const path = process.env.PATH ?? ''

/** A project, and what a push would bring to a ref of it; `count` is how many gits were started. */
async function createSite() {
  const project = await createProject()
  const git = createGit({ ...options, path })
  let count = 0
  const counting: Git = {
    ...git,
    start(...wanted) {
      count += 1
      return git.start(...wanted)
    },
  }
  const directory = join(project.path, '.git')
  return {
    project,
    directory,
    counting,
    count: () => count,
    first: await project.git('rev-parse', 'HEAD'),
    read: (before: string, after: string, known?: string) =>
      readPushedCommits(counting, directory, { before, after, known }),
    [Symbol.asyncDispose]: project[Symbol.asyncDispose],
  }
}

const idsOf = (commits: { id: string }[]) => commits.map(({ id }) => id)

test('one git process reads the commits of an updated branch', async () => {
  await using site = await createSite()
  const ids = [await site.project.commit('a'), await site.project.commit('b')]
  const pushed = await site.read(site.first, ids[1] ?? '')
  assert.deepEqual(idsOf(pushed.commits), ids)
  assert.equal(pushed.head, pushed.commits[1])
  assert.deepEqual([pushed.isComplete, site.count()], [true, 1])
})

test('a branch that was reset has no new commits, but a head', async () => {
  await using site = await createSite()
  const second = await site.project.commit('a')
  const pushed = await site.read(second, site.first)
  assert.deepEqual([pushed.commits, pushed.head?.id, pushed.isComplete], [[], site.first, true])
  assert.deepEqual(pushed.head?.files, { added: ['readme.txt'], removed: [], modified: [] })
})

test('a new branch adds what the default branch lacks, and lists other branches at its tip', async () => {
  await using site = await createSite()
  await site.project.git('checkout', '--quiet', '-b', 'topic')
  const topic = await site.project.commit('t')
  await site.project.git('branch', 'other')
  await site.project.git('tag', 'v0')
  const pushed = await site.read(zero, topic, site.first)
  assert.deepEqual([idsOf(pushed.commits), pushed.isComplete], [[topic], true])
  assert.deepEqual(pushed.branches.sort(), ['refs/heads/other', 'refs/heads/topic'])
  assert.equal(site.count(), 2)
  const same = await site.read(zero, site.first, site.first)
  assert.deepEqual([same.commits, same.head?.id, site.count()], [[], site.first, 3])
})

test('the first branch brings everything', async () => {
  await using site = await createSite()
  const second = await site.project.commit('b')
  const { commits } = await site.read(zero, second)
  assert.deepEqual(idsOf(commits), [site.first, second])
})

test('an annotated tag leads to its commit, and one of a tree to none', async () => {
  await using site = await createSite()
  await site.project.git('tag', '--annotate', '-m', 'one', 'v1')
  const tag = await site.project.git('rev-parse', 'v1')
  const pushed = await site.read(zero, tag, site.first)
  assert.deepEqual([pushed.head?.id, pushed.commits, pushed.isComplete], [site.first, [], true])
  assert.deepEqual(pushed.branches, ['refs/heads/main'])
  for (const what of ['HEAD^{tree}', 'HEAD:readme.txt']) {
    await site.project.git('tag', '--force', '--annotate', '-m', 'x', 'v2', what)
    const other = await site.read(zero, await site.project.git('rev-parse', 'v2'), site.first)
    assert.deepEqual([other.head, other.commits, other.isComplete], [undefined, [], true])
  }
  const moved = await site.read(tag, await site.project.commit('next'))
  assert.deepEqual([moved.commits.length, moved.isComplete], [1, true])
})

test('a merge lists its changes against its first parent', async () => {
  await using site = await createSite()
  const { project } = site
  await project.git('checkout', '--quiet', '-b', 'topic')
  const theirs = await project.commit('theirs')
  await project.git('checkout', '--quiet', 'main')
  const ours = await project.commit('ours')
  await project.git('merge', '--quiet', '--no-edit', 'topic')
  const merge = await project.git('rev-parse', 'HEAD')
  const { commits } = await site.read(site.first, merge)
  assert.deepEqual(idsOf(commits).sort(), [theirs, ours, merge].sort())
  assert.deepEqual(commits[2]?.files, { added: ['theirs'], removed: [], modified: [] })
})

test('parents come first, regardless of commit dates', async () => {
  await using site = await createSite()
  const ids: string[] = []
  for (const year of [2030, 2001, 2020, 1999]) {
    const date = `${year}-01-01T00:00:00Z`
    const commit = ['commit', '--quiet', '--allow-empty', '-m', `${year}`]
    await runGit(site.project.path, commit, { GIT_AUTHOR_DATE: date, GIT_COMMITTER_DATE: date })
    ids.push(await site.project.git('rev-parse', 'HEAD'))
  }
  const { commits } = await site.read(site.first, ids.at(-1) ?? '')
  assert.deepEqual(idsOf(commits), ids)
})

test('file names are unchanged, and texts of other encodings are converted to UTF-8', async () => {
  await using site = await createSite()
  const names = ['tab\tquote".txt', 'line\nend', '-dash', 'é', ' space ', 'A']
  for (const name of names) await writeFile(join(site.project.path, name), name)
  await writeFile(Buffer.from(join(site.project.path, 'latin-\xe9'), 'latin1'), 'x')
  await writeFile(join(site.project.path, '.git', 'message'), Buffer.from('Gr\xfc\xdfe', 'latin1'))
  await site.project.git('add', '--all')
  const encoding = ['-c', 'i18n.commitEncoding=ISO-8859-1']
  await site.project.git(...encoding, 'commit', '--quiet', '--file', '.git/message')
  const { commits } = await site.read(site.first, await site.project.git('rev-parse', 'HEAD'))
  assert.deepEqual(commits[0]?.files.added.sort(), [...names, 'latin-\u{fffd}'].sort())
  assert.equal(commits[0]?.message, 'Grüße')
})

test('a commit of 100,000 files is truncated, and the others are listed nevertheless', async () => {
  await using site = await createSite()
  const before = await site.project.commit('small')
  await importing(site.project.path, [
    'commit refs/heads/main',
    'committer Ada <ada@example.com> 1900000000 +0000',
    'data 4\nmany',
    `from ${before}`,
    ...Array.from(
      { length: 100_000 },
      (_, file) => `M 100644 inline d${file % 100}/${`f${file}`.padEnd(100, '-')}\ndata 0\n`,
    ),
  ])
  const pushed = await site.read(zero, await site.project.git('rev-parse', 'main'))
  assert.deepEqual(
    pushed.commits.map(({ message, files }) => [message, files.added.length]),
    [
      ['Add readme.txt', 0],
      ['Add small', 0],
      ['many', 1000],
    ],
  )
  assert.equal(pushed.isComplete, false)
})

test('the newest 2,048 of 3,000 commits are listed', async () => {
  await using site = await createSite()
  await site.project.git('checkout', '--quiet', '--orphan', 'other')
  await site.project.git('branch', '--delete', '--force', 'main')
  await importHistory(site.project.path, { commits: 3000 })
  const tip = await site.project.git('rev-parse', 'main')
  const { commits, head, isComplete } = await site.read(zero, tip)
  assert.deepEqual([commits.length, isComplete, head?.id], [2048, false, tip])
  assert.deepEqual([commits[0]?.message, commits[2047]?.message], ['Commit 953', 'Commit 3000'])
  const range = await site.project.git('rev-list', '--max-count=2049', 'main')
  const whole = await site.read(range.split('\n')[2048] ?? '', tip)
  assert.deepEqual([whole.commits.length, whole.isComplete], [2048, true])
})

test('a tree that contains itself many times costs only its files', async () => {
  await using site = await createSite()
  const make = async (type: string, input: string) => {
    await writeFile(join(site.project.path, 'input'), input)
    return site.project.git('hash-object', '-t', type, '-w', 'input')
  }
  let entry = `100644 blob ${await make('blob', 'x')}`
  for (let depth = 0; depth < 10; depth++) {
    const lines = Array.from({ length: 10 }, (_, name) => `${entry}\t${name}`).join('\n')
    const child = spawnGit(site.project.path, ['mktree'])
    child.stdin.end(`${lines}\n`)
    let id = ''
    for await (const chunk of child.stdout) id += chunk
    entry = `040000 tree ${id.trim()}`
  }
  const [, , tree = ''] = entry.split(' ')
  const bomb = await site.project.git('commit-tree', '-p', 'main', '-m', 'bomb', tree)
  const pushed = await site.read(site.first, bomb)
  assert.deepEqual(idsOf(pushed.commits), [bomb])
  assert.equal(pushed.isComplete, false)
})

test('missing objects are omitted', async () => {
  await using site = await createSite()
  const second = await site.project.commit('b')
  const gone = 'f'.repeat(40)
  const overwritten = await site.read(gone, second)
  assert.deepEqual(
    [overwritten.commits, overwritten.head?.id, overwritten.isComplete],
    [[], second, false],
  )
  for (const before of [zero, site.first]) {
    const pruned = await site.read(before, gone, site.first)
    assert.deepEqual([pruned.commits, pruned.head, pruned.isComplete], [[], undefined, false])
  }
  assert.equal(await readHead(site.counting, site.directory, gone), undefined)
  const tree = await site.project.git('rev-parse', `${second}^{tree}`)
  await rm(join(site.directory, 'objects', tree.slice(0, 2), tree.slice(2)))
  const damaged = await site.read(site.first, second)
  assert.deepEqual([damaged.head?.id, damaged.isComplete], [second, false])
})

test('transient errors are thrown', async () => {
  await using site = await createSite()
  const git = createGit({ ...options, path: '/nonexistent' })
  await assert.rejects(
    readPushedCommits(git, site.directory, { before: zero, after: site.first, known: undefined }),
    { code: 'ENOENT' },
  )
})

async function importing(folder: string, lines: string[]): Promise<void> {
  const child = spawnGit(folder, ['fast-import', '--quiet', '--force'])
  child.stdin.end(`${lines.join('\n')}\n`)
  assert.deepEqual(await once(child, 'close'), [0, null])
}

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
