import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { type PackedObject, packHeader } from '#git/objects/pack.ts'
import { createRecentPacks, type RecentPack, toRecentPack } from './recent-packs.ts'

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

const ends = { base: 'a', after: 'b' }
const object = (id: string): PackedObject => ({ id, type: 'blob', content: Buffer.from(id) })

/** The pack of a push that builds on `a`. */
function toRecent(pack: Buffer, objects: PackedObject[], reached: string[]) {
  const proof = { base: 'a', reached: new Set(reached), needed: new Set(['1', '2']) }
  return toRecentPack('b', pack, { objects, proof })
}

function packOf(count: number, entries = 'entries'): Buffer {
  const content = Buffer.concat([packHeader(count), Buffer.from(entries)])
  return Buffer.concat([content, createHash('sha1').update(content).digest()])
}

test('the pack of a push is kept without the bases that git has added', () => {
  const objects = ['1', '2', 'base'].map(object)
  const found = toRecent(packOf(2), objects, ['base', 'other'])
  assert.deepEqual(found, { ...ends, entries: Buffer.from('entries'), ids: new Set(['1', '2']) })
})

test('a base that another client may not have keeps it from being sent', () => {
  const objects = ['1', '2', 'base'].map(object)
  assert.equal(toRecent(packOf(2), objects, ['other']), undefined)
})

test('what follows a pack, or a pack that has an object twice, is not sent', () => {
  const objects = ['1', '2'].map(object)
  const pack = Buffer.concat([packOf(2), Buffer.from('more')])
  assert.equal(toRecent(pack, objects, []), undefined)
  assert.equal(toRecent(packOf(2), ['1', '1'].map(object), []), undefined)
})

test('a push that is not proven, or builds on nothing, is not sent', () => {
  const objects = ['1', '2'].map(object)
  const whole = { base: undefined, reached: new Set<string>(), needed: new Set(['1', '2']) }
  assert.equal(toRecentPack('b', packOf(2), { objects, proof: undefined }), undefined)
  assert.equal(toRecentPack('b', packOf(2), { objects, proof: whole }), undefined)
  assert.ok(toRecent(packOf(2), objects, []))
})

test('a pack with an object that its commits do not lead to is not sent', () => {
  assert.ok(toRecent(packOf(1), ['1'].map(object), []))
  assert.equal(toRecent(packOf(2), ['1', 'more'].map(object), []), undefined)
})
