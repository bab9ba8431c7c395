import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRecentPacks, type RecentPack } from './recent-packs.ts'

function packFrom(base: string, after: string, ...ids: string[]): RecentPack {
  return { base, after, entries: Buffer.from(after), ids: new Set(ids) }
}

test('packs lead from what a client has to what it wants, the oldest first', () => {
  const packs = createRecentPacks()
  packs.add('site', packFrom('a', 'b', '1'))
  packs.add('site', packFrom('b', 'c', '2'))
  const find = (wanted: string, ...haves: string[]) => {
    const found = packs.find('site', wanted, new Set(haves))
    return found && [found.common, ...found.packs.map(({ after }) => after)]
  }
  assert.deepEqual(find('c', 'a'), ['a', 'b', 'c'])
  assert.deepEqual(find('c', 'a', 'b'), ['b', 'c'])
  assert.deepEqual(find('b', 'a'), ['a', 'b'])
  assert.equal(find('c', 'x'), undefined)
  assert.equal(find('x', 'a'), undefined)
  assert.equal(packs.find('other', 'c', new Set('a')), undefined)
})

test('packs with an object in common are not sent together', () => {
  const packs = createRecentPacks()
  packs.add('site', packFrom('a', 'b', '1', '2'))
  packs.add('site', packFrom('b', 'c', '2'))
  assert.equal(packs.find('site', 'c', new Set('a')), undefined)
  assert.equal(packs.find('site', 'c', new Set('b'))?.common, 'b')
})

test('a circle of pushes ends', () => {
  const packs = createRecentPacks()
  packs.add('site', packFrom('b', 'a', '1'))
  packs.add('site', packFrom('a', 'b', '2'))
  assert.equal(packs.find('site', 'b', new Set('x')), undefined)
})

test('of two packs for one value, the first is kept', () => {
  const packs = createRecentPacks()
  packs.add('site', packFrom('a', 'b', '1'))
  packs.add('site', packFrom('x', 'b', '1', '2'))
  assert.equal(packs.find('site', 'b', new Set('a'))?.common, 'a')
  assert.equal(packs.find('site', 'b', new Set('x')), undefined)
})
