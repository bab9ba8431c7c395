import assert from 'node:assert/strict'
import { test } from 'node:test'
import { trusted } from '../render/html.ts'
import { withNofollow } from './robots.ts'

const id = '0123456789abcdef0123456789abcdef01234567'

function isMarked(address: string, prefix = ''): boolean {
  const tag = `<a class="x" href="${address}">`
  const { text } = withNofollow(trusted(`<p>${tag}`), prefix)
  assert.ok(text === `<p>${tag}` || text === `<p>${tag.slice(0, -1)} rel="nofollow">`, text)
  return text.includes('nofollow')
}

test('search engines follow links to repositories and to what branches have now', () => {
  for (const address of [
    '/',
    '/r/x',
    '/r/x/src/main',
    '/r/x/src/main:a/b#L1',
    '#x',
    'https://x/',
  ]) {
    assert.equal(isMarked(address), false, address)
  }
  for (const rest of [
    `src/${id}`,
    `src/${id}:a`,
    'log',
    'commit/x',
    'src/main?plain',
    'raw/main:a',
  ])
    assert.equal(isMarked(`/r/x/${rest}`), true, rest)
  for (const address of ['/-/login?next=%2F', '?cursor=x', '/?q=x'])
    assert.equal(isMarked(address), true, address)
  assert.equal(isMarked('/git/r/x', '/git'), false)
  assert.equal(isMarked('/git/r/x/log', '/git'), true)
})

test('links that have relations keep them', () => {
  const link = '<a href="/r/x/log" rel="nofollow noreferrer">'
  assert.equal(withNofollow(trusted(link), '').text, link)
  const next = withNofollow(trusted('<a rel="next" href="?cursor=x">'), '')
  assert.equal(next.text, '<a rel="next nofollow" href="?cursor=x">')
})
