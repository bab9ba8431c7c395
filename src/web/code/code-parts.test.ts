import assert from 'node:assert/strict'
import { test } from 'node:test'
import { foldMiddle } from './code-bar.ts'
import { editingFault, foldersAbove, isShortId, toTarget } from './code-target.ts'
import { measure } from './document-view.ts'
import { filterPaths } from './find-view.ts'
import { findReadme } from './folder-view.ts'
import { languageNamed, toShares } from './language-shares.ts'
import { imageTypeOf } from './raw-files.ts'
import { toList } from './repository-side.ts'

test('a path has the folders above it, also where it is not UTF-8', () => {
  assert.deepEqual(foldersAbove({ path: 'file' }), [])
  assert.deepEqual(foldersAbove({ path: 'a/b/c' }), [
    { path: 'a', name: 'a' },
    { path: 'a/b', name: 'b' },
  ])
  const pathBase64 = Buffer.from('a\xff/b', 'latin1').toString('base64')
  assert.deepEqual(foldersAbove({ path: 'a\ufffd/b', pathBase64 }), [
    {
      path: 'a\ufffd',
      name: 'a\ufffd',
      pathBase64: Buffer.from('a\xff', 'latin1').toString('base64'),
    },
  ])
})

test('of many folders the middle is folded', () => {
  const folders = Array.from({ length: 1000 }, (_, index) => index)
  const { first, hidden, last } = foldMiddle(folders)
  assert.deepEqual([first, hidden], [[0, 1, 2, 3], 988])
  assert.deepEqual(last, folders.slice(-8))
  assert.deepEqual(foldMiddle(folders.slice(0, 20)).first.length, 20)
})

test('text in UTF-8 is edited on pages, and nothing else', () => {
  const commit = '1'.repeat(40)
  const text = {
    ...{ commit, path: 'a', mode: '100644', id: commit, size: 1, lfs: null },
    ...{ isBinary: false, encoding: 'utf-8' as const, content: 'a', limits: [] },
  }
  const lfs = { oid: '1'.repeat(64), size: 1, isStored: true }
  assert.equal(editingFault(text), undefined)
  for (const other of [
    { mode: '120000' },
    { lfs },
    { size: 256 * 1024 + 1 },
    { isBinary: true, encoding: 'base64' as const },
    { isBinary: null, encoding: null, content: null },
    { content: `${'a'.repeat(9000)}\0` },
    { encoding: 'base64' as const },
  ])
    assert.match(editingFault({ ...text, ...other }) ?? '', /^Th/, JSON.stringify(other))
})

test('an address names a revision and a path', () => {
  assert.deepEqual(toTarget('main:src/'), { rev: 'main', path: { path: 'src' } })
  assert.deepEqual(toTarget('a/b'), { rev: 'a/b', path: { path: '' } })
  for (const address of ['', ':src', '%', undefined]) assert.throws(() => toTarget(address))
})

test('the beginning of an id is short, a branch of the same form is not', () => {
  const commit = '0123456789abcdef0123456789abcdef01234567'
  assert.equal(isShortId('0123456', commit), true)
  assert.equal(isShortId('abcdef0', commit), false)
  assert.equal(isShortId(commit, commit), false)
})

test('paths match all words, those with a match in their name first', () => {
  const entries = ['src/web/a.ts', 'web.ts', 'docs/Web-Pages.md'].map((path) => ({
    path,
    name: path.slice(path.lastIndexOf('/') + 1),
  }))
  const found = (query: string) => filterPaths(entries, query).map(({ path }) => path)
  assert.deepEqual(found('web'), ['web.ts', 'docs/Web-Pages.md', 'src/web/a.ts'])
  assert.deepEqual(found(' TS web '), ['web.ts', 'src/web/a.ts'])
  assert.deepEqual(found('x'), [])
  assert.equal(found('').length, 3)
})

test('the README in Markdown comes first, and a folder is none', () => {
  const entry = (name: string, type: 'file' | 'folder' = 'file', size = 1) => ({ name, type, size })
  const { name } =
    findReadme([entry('README'), entry('readme.md'), entry('README.md', 'folder')]) ?? {}
  assert.equal(name, 'readme.md')
  assert.equal(findReadme([entry('README.md', 'file', 1024 * 1024)]), undefined)
})

test('languages have shares, and the smallest are one', () => {
  assert.deepEqual(toShares(new Map()), [])
  const bytes = new Map([...'abcdefgh'].map((language, index) => [language, 2 ** (8 - index)]))
  const shares = toShares(bytes)
  assert.deepEqual(
    shares.map(({ language }) => language),
    ['a', 'b', 'c', 'd', 'e', 'Other'],
  )
  assert.equal(Math.round(shares.reduce((sum, { percent }) => sum + percent, 0)), 100)
  assert.equal(languageNamed('Makefile'), 'Makefile')
  assert.equal(languageNamed('constructor'), undefined)
})

test('lines are counted as git does', () => {
  assert.deepEqual(measure(''), { lines: 0, longest: 0 })
  assert.deepEqual(measure('a\nbcd'), { lines: 2, longest: 3 })
  assert.deepEqual(measure('a\n\n'), { lines: 2, longest: 1 })
})

test('lists of many names end early, and say so', () => {
  assert.equal(toList(['a']), 'a')
  assert.equal(toList(['a', 'b', 'c']), 'a, b and c')
  assert.equal(toList([...'abcdefg']), 'a, b, c, d and 3 more')
})

test('images are known by their extension', () => {
  assert.equal(imageTypeOf('a/B.PNG'), 'image/png')
  assert.equal(imageTypeOf('png'), 'image/png')
  assert.equal(imageTypeOf('a.html'), undefined)
})
