import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isOpenToAnonymous, namesCommit } from './audience.ts'

const id = '0123456789abcdef0123456789abcdef01234567'

function openings(audience: 'code' | 'all' | 'members', target: string, search = '') {
  const visited = { params: { target }, query: new URLSearchParams(search) }
  return (['off', 'code', 'all'] as const).filter((allowed) =>
    isOpenToAnonymous({ audience }, allowed, visited),
  )
}

test('anonymous readers of the current code reach no history', () => {
  assert.deepEqual(openings('code', 'main:src/app.ts'), ['code', 'all'])
  assert.deepEqual(openings('code', 'feature/0123456'), ['code', 'all'])
  for (const target of [
    id,
    `${id}:src`,
    `${id}%3Asrc`,
    id.toUpperCase(),
    id.slice(0, 7),
    `%30${id.slice(1)}`,
  ]) {
    assert.deepEqual(openings('code', target), ['all'], target)
  }
  assert.deepEqual(openings('code', 'main', 'cursor=50'), ['all'])
  assert.deepEqual(openings('code', 'main', 'author=ada'), ['all'])
  assert.deepEqual(openings('code', 'refs/heads/main:src'), ['code', 'all'])
  assert.deepEqual(openings('code', 'refs/tags/v1'), ['code', 'all'])
  for (const target of ['refs/changes/1', 'refs%2Fnotes/commits', 'refs/remotes/origin/main:a'])
    assert.deepEqual(openings('code', target), ['all'], target)
})

test('other pages are open with all, and those of members never', () => {
  assert.deepEqual(openings('all', 'main'), ['all'])
  assert.deepEqual(openings('members', 'main'), [])
})

test('pages by commit id are not for search engines', () => {
  for (const params of [
    { target: `${id}:a` },
    { target: `${id}.atom` },
    { id: `${id}.patch` },
    { range: `main...${id}` },
  ]) {
    assert.ok(namesCommit({ params }), JSON.stringify(params))
  }
  assert.ok(!namesCommit({ params: { target: 'main:deadbeef', id: '12', range: 'a...b' } }))
})
