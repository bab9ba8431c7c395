import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { fuzzing } from '../../../test/support/fuzz.ts'
import { createPushBudget, matchesPush } from './match-triggers.ts'
import { compilePattern, patternFault } from './reading/filter-pattern.ts'
import type { PushFilter } from './workflow.ts'

test("patterns match what GitHub's cheat sheet says", () => {
  for (const [pattern, matching, others] of cheatSheet) {
    assert.equal(patternFault(pattern), undefined, pattern)
    for (const name of matching)
      assert.ok(matchesFilterPattern(pattern, name), `${pattern} ${name}`)
    for (const name of others) assert.ok(!matchesFilterPattern(pattern, name), `${pattern} ${name}`)
  }
})

test('a pattern matches just what the same regular expression matches', () => {
  const piece = fc.constantFrom('a', 'b', '/', '.', '*', '**', 'a?', 'b+', '[ab]', '[a-b]+', '\\*')
  const name = fc.string({ unit: fc.constantFrom('a', 'b', '/', '.', '*'), maxLength: 8 })
  fc.assert(
    fc.property(fc.array(piece, { minLength: 1, maxLength: 6 }), name, (pieces, text) => {
      // Stars side by side are read from the left: `*` and `**` are `**` and `*`.
      const pattern = pieces.join('').replaceAll(/(?<!\\)\*{3,}/g, '**')
      if (patternFault(pattern)) return
      assert.equal(matchesFilterPattern(pattern, text), toRegExp(pattern).test(text), pattern)
    }),
    { numRuns: 1000, ...fuzzing() },
  )
})

test('a pattern with "!" makes an exception of what is ignored', async () => {
  const starts = (filter: Partial<PushFilter>, ref: string, path = 'a.txt') =>
    matchesPush(
      { ...all, ...filter },
      { ref, changedPaths: [path], isNew: false },
      createPushBudget(),
    )
  const branchesIgnore = ['release/**', '!release/next']
  assert.equal(await starts({ branchesIgnore }, 'refs/heads/release/1'), false)
  assert.equal(await starts({ branchesIgnore }, 'refs/heads/release/next'), true)
  const pathsIgnore = ['docs/**', '!docs/api/**']
  assert.equal(await starts({ pathsIgnore }, 'refs/heads/main', 'docs/a.md'), false)
  assert.equal(await starts({ pathsIgnore }, 'refs/heads/main', 'docs/api/a.md'), true)
  const tagsIgnore = ['v*', '!v2']
  assert.equal(await starts({ tagsIgnore }, 'refs/tags/v1'), false)
  assert.equal(await starts({ tagsIgnore }, 'refs/tags/v2'), true)
})

test('a push that takes too long to match starts the workflow, as on GitHub', async () => {
  const push = { ref: 'refs/heads/main', changedPaths: ['a/'.repeat(200_000)], isNew: false }
  assert.ok(await matchesPush({ ...all, paths: ['x'] }, push, createPushBudget()))
  const budget = createPushBudget()
  const starts = (paths: string[], changed: string) =>
    matchesPush({ ...all, paths }, { ...push, changedPaths: [changed] }, budget)
  assert.equal(await starts(['x'], 'a/'.repeat(2000)), false)
  const slow = [`${'**a'.repeat(100)}b`]
  let filters = 1
  while (!(await starts(slow, 'a/'.repeat(2000)))) filters++
  // Some filters of several workflows have used it up together.
  assert.ok(filters > 5)
  assert.ok(await starts(['x'], 'a'))
})

test('others are served while filters are matched', async () => {
  const paths = [`${'**a'.repeat(100)}b`]
  const changedPaths = Array.from({ length: 100 }, () => 'a/'.repeat(2000))
  const push = { ref: 'refs/heads/main', changedPaths, isNew: false }
  let turns = 0
  let isDone = false
  const matching = matchesPush({ ...all, paths }, push, createPushBudget()).then(() => {
    isDone = true
  })
  for (; !isDone && turns < 3; turns++) await new Promise(setImmediate)
  await matching
  assert.equal(turns, 3)
})

test('many stars take steps proportional to the lengths', () => {
  const budget = { left: 1000 * 301 + 1 }
  assert.equal(compilePattern(`${'**a'.repeat(100)}b`)('a'.repeat(1000), budget), false)
  assert.ok(budget.left > 0)
})

test('an invalid pattern is reported', () => {
  for (const pattern of ['', '+a', '?', '*?', '**+', 'a++', '[', '[]', '[b-a]', '[^a]', 'a\\']) {
    assert.ok(patternFault(pattern), pattern)
  }
  assert.ok(patternFault('a'.repeat(501)))
})

test('filters for branches exclude tags, and vice versa', async () => {
  const starts = (given: Partial<PushFilter>, ref: string) =>
    matchesPush(
      { ...all, ...given },
      { ref, changedPaths: ['a'], isNew: false },
      createPushBudget(),
    )
  const [branch, tag] = ['refs/heads/main', 'refs/tags/v1']
  assert.deepEqual([await starts({}, branch), await starts({}, tag)], [true, true])
  assert.deepEqual(
    [await starts({ branches: ['**'] }, branch), await starts({ branches: ['**'] }, tag)],
    [true, false],
  )
  assert.deepEqual(
    [await starts({ tags: ['**'] }, branch), await starts({ tags: ['**'] }, tag)],
    [false, true],
  )
  assert.equal(await starts({ branchesIgnore: ['x'] }, tag), false)
  assert.equal(await starts({ tagsIgnore: ['x'] }, branch), false)
  assert.equal(await starts({ tagsIgnore: ['v*'], branches: ['main'] }, tag), false)
  assert.equal(await starts({ paths: ['b'] }, tag), true)
  assert.equal(await starts({}, 'refs/notes/commits'), false)
})

test('the last pattern that matches decides', async () => {
  const starts = (branches: string[], name: string) =>
    matchesPush(
      { ...all, branches },
      { ref: `refs/heads/${name}`, changedPaths: [], isNew: true },
      createPushBudget(),
    )
  assert.equal(await starts(['releases/**', '!releases/**-alpha'], 'releases/10'), true)
  assert.equal(await starts(['releases/**', '!releases/**-alpha'], 'releases/beta/3-alpha'), false)
  assert.equal(await starts(['**', '!a*', 'ab'], 'ab'), true)
  assert.equal(await starts(['**', '!a*', 'ab'], 'ac'), false)
})

test('filters for paths need one matching path', async () => {
  const starts = (given: Partial<PushFilter>, changedPaths: string[] | 'unknown', isNew = false) =>
    matchesPush(
      { ...all, ...given },
      { ref: 'refs/heads/main', changedPaths, isNew },
      createPushBudget(),
    )
  assert.equal(await starts({ paths: ['src/**'] }, ['docs/a', 'src/b']), true)
  assert.equal(await starts({ paths: ['src/**'] }, ['docs/a']), false)
  assert.equal(await starts({ paths: ['src/**', '!src/docs/**'] }, ['src/docs/a']), false)
  assert.equal(await starts({ paths: ['src/**'] }, []), false)
  assert.equal(await starts({ pathsIgnore: ['docs/**'] }, ['docs/a']), false)
  assert.equal(await starts({ pathsIgnore: ['docs/**'] }, ['docs/a', 'b']), true)
  assert.equal(await starts({ pathsIgnore: ['docs/**'] }, []), true)
  assert.equal(await starts({ paths: ['src/**'] }, 'unknown'), true)
  assert.equal(await starts({ paths: ['src/**'] }, ['docs/a'], true), true)
  assert.equal(await starts({ paths: ['src/**'], branches: ['x'] }, ['src/a'], true), false)
})

const all: PushFilter = {
  branches: undefined,
  branchesIgnore: undefined,
  tags: undefined,
  tagsIgnore: undefined,
  paths: undefined,
  pathsIgnore: undefined,
}

const cheatSheet: [pattern: string, matching: string[], others: string[]][] = [
  ['feature/*', ['feature/my-branch', 'feature/your-branch'], ['feature/beta-a/b', 'feature']],
  ['feature/**', ['feature/beta-a/my-branch', 'feature/your-branch'], ['feature', 'features/a']],
  ['main', ['main'], ['main2', 'Main', 'a/main']],
  ['releases/mona-the-octocat', ['releases/mona-the-octocat'], ['releases/mona']],
  ['*', ['main', 'releases', '.hidden'], ['all/the/branches']],
  ['**', ['all/the/branches', 'every/tag', 'main'], []],
  ['*feature', ['mona-feature', 'feature', 'ver-10-feature'], ['a/feature']],
  ['v2*', ['v2', 'v2.0', 'v2.9'], ['v1', 'v2/a']],
  ['v[12].[0-9]+.[0-9]+', ['v1.10.1', 'v2.0.0'], ['v3.0.0', 'v1.0', 'v1x0.0']],
  ['*.jsx?', ['page.js', 'page.jsx'], ['page.jsxx', 'a/page.js']],
  ['**.js', ['index.js', 'js/index.js', 'src/js/app.js'], ['index.jsx']],
  ['docs/*', ['docs/README.md', 'docs/file.txt'], ['docs/a/b.md']],
  ['docs/**', ['docs/README.md', 'docs/mona/octocat.txt'], ['doc/a']],
  [
    'docs/**/*.md',
    ['docs/README.md', 'docs/mona/hello-world.md', 'docs/a/markdown/file.md'],
    ['docs.md'],
  ],
  [
    '**/docs/**',
    ['docs/hello.md', 'dir/docs/my-file.txt', 'space/docs/plan/space.doc'],
    ['mydocs/a'],
  ],
  ['**/README.md', ['README.md', 'js/README.md'], ['xREADME.md', 'js/README_md']],
  ['**/*src/**', ['a/src/app.js', 'my-src/code/js/app.js'], ['src-a/b']],
  ['**/*-post.md', ['my-post.md', 'path/their-post.md'], ['post.md']],
  [
    '**/migrate-*.sql',
    ['migrate-10909.sql', 'db/migrate-v1.0.sql', 'db/sept/migrate-v1.sql'],
    ['migrate.sql'],
  ],
  ['\\*a\\?', ['*a?'], ['xa?', '*a']],
  ['é+', ['é', 'ééé'], ['']],
]

function matchesFilterPattern(pattern: string, name: string): boolean {
  return compilePattern(pattern)(name, { left: 1_000_000 })
}

function toRegExp(pattern: string): RegExp {
  const source = pattern.replace(
    /\\(.)|(^|(?<=\/))\*\*\/|\*\*|\*|\[[^\]]*\]|./gs,
    (found, literal?: string) => {
      if (literal !== undefined) return `\\${literal}`
      if (found === '**/') return '(?:.*/)?'
      if (found === '**') return '.*'
      if (found === '*') return '[^/]*'
      return found === '.' ? '\\.' : found
    },
  )
  return new RegExp(`^(?:${source})$`, 's')
}
