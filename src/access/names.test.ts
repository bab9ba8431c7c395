import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Ajv } from 'ajv'
import fc from 'fast-check'
import { isRepositoryName, RepositoryName, repositoryNameIn, Username } from './names.ts'

const ajv = new Ajv({ strict: false })
const matchesSchema = ajv.compile(RepositoryName)
const isUsername = ajv.compile(Username)

const nameLike = fc
  .array(
    fc.constantFrom(
      ...[
        'a',
        'Z',
        '9',
        '.',
        '..',
        '_',
        '-',
        '/',
        ' ',
        '\n',
        'é',
        '%',
        '.git',
        '.lock',
        'git',
        'import',
        'HEALTH',
      ],
    ),
    { maxLength: 7 },
  )
  .map((pieces) => pieces.join(''))

test('the schema and the function agree on every name', () => {
  fc.assert(
    fc.property(fc.oneof(nameLike, fc.string({ maxLength: 110 })), (name) => {
      assert.equal(matchesSchema(name), isRepositoryName(name), JSON.stringify(name))
    }),
    { numRuns: 3000 },
  )
})

test('a name that is accepted is one or two safe segments of an address', () => {
  fc.assert(
    fc.property(nameLike, (name) => {
      fc.pre(isRepositoryName(name))
      assert.equal(encodeURI(name), name)
      assert.equal(decodeURIComponent(encodeURIComponent(name)), name)
      assert.equal(new URL(`http://h/repos/${name}.git`).pathname, `/repos/${name}.git`)
    }),
    { numRuns: 3000 },
  )
})

test('the repository of an address is found among folders, paths within it and further suffixes', () => {
  for (const address of [
    ...['site', 'site.git', '/site.git/', 'a/b/site', 'repos/site.git/src'],
    ...['site.git/src.git', 'site.git/a/b.git/c', 'site.git.git', '//site.git//src'],
  ])
    assert.equal(repositoryNameIn(address), 'site', address)
  for (const address of ['acme/site', 'acme/site.git/src', 'repos/acme/site.git', 'x/r/acme/site'])
    assert.equal(repositoryNameIn(address), 'acme/site', address)
  for (const address of ['', '/', '.git', 'a/../site.git', '-x.git', 'site.git/../x'])
    assert.equal(repositoryNameIn(address), undefined, address)
})

test('the rules of names, one by one', () => {
  for (const name of [
    'a',
    '0',
    'a.b',
    'A_b-c',
    'x'.repeat(100),
    'git',
    'a.git.b',
    'imports',
    'a.GIT',
    ...['a/b', 'acme/site.x', 'a/r', 'a/repos', `${'x'.repeat(100)}/${'y'.repeat(100)}`],
  ]) {
    assert.ok(isRepositoryName(name), name)
  }
  const refused = [
    '',
    '.a',
    '-a',
    '_a',
    'a..b',
    'a.git',
    'a.lock',
    'a.',
    'x'.repeat(101),
    'a b',
    ...[
      '/a',
      'a/',
      'a//b',
      'a/b/c',
      'r/b',
      'REPOS/b',
      'import/b',
      'a/health',
      'a.git/b',
      '../b',
      'a\\b',
    ],
  ]
  for (const name of [...refused, 'import', 'Import', 'health', 'HEALTH', 'ä', 'a\n', 'a%2e']) {
    assert.ok(!isRepositoryName(name), name)
  }
  for (const name of ['a', '0', 'ada@example.com', 'A_b.c-', 'x'.repeat(64)])
    assert.ok(isUsername(name), name)
  for (const name of ['', '.', '..', '-x', '_bot', '@a', 'x'.repeat(65), 'a b', 'a/b', 'ä'])
    assert.ok(!isUsername(name), name)
})
