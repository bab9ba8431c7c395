import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { toNextPath } from './new-session.ts'

test('pages stay as they are, and other addresses are refused', () => {
  for (const path of ['/', '/?q=a', '/-/new', '/r/demo', '/r/demo/src/main:a%20b.txt?plain=1'])
    assert.equal(toNextPath(path), path)
  for (const other of [
    '',
    'r/demo',
    '//evil.example',
    '/.//evil.example',
    '/./\\evil.example',
    '/%2e//evil.example',
    '/r/..//evil.example',
    '/\\evil.example',
    '/\t/evil.example',
    'https://evil.example/r/',
    '/repos',
    '/docs',
    '/r/a b',
  ])
    assert.equal(toNextPath(other), undefined, other)
})

test('a browser finds a page of this service at every accepted address', () => {
  const pieces = [
    '/',
    '\\',
    '.',
    '..',
    '%2e',
    '%2f',
    'r',
    '-',
    '@',
    ':',
    '?',
    '#',
    ' ',
    '\t',
    'evil',
  ]
  const text = fc.array(fc.constantFrom(...pieces), { maxLength: 10 })
  fc.assert(
    fc.property(text, (parts) => {
      const next = toNextPath(`/${parts.join('')}`)
      if (next === undefined) return
      const { origin, pathname } = new URL(next, 'https://git.example/-/login')
      assert.equal(origin, 'https://git.example')
      assert.match(pathname, /^\/(?:$|r\/|-\/|robots|favicon)/)
      assert.equal(toNextPath(next), next)
    }),
    { numRuns: 2000 },
  )
})
