import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { packHeader } from '../../../git/objects/pack-header.ts'
import type { PackedObject } from '../../../git/objects/small-pack.ts'
import { toRecentPack } from './to-recent-pack.ts'

const update = { before: 'a', after: 'b' }
const object = (id: string): PackedObject => ({ id, type: 'blob', content: Buffer.from(id) })

function packOf(count: number, entries = 'entries'): Buffer {
  const content = Buffer.concat([packHeader(count), Buffer.from(entries)])
  return Buffer.concat([content, createHash('sha1').update(content).digest()])
}

test('the pack of a push is kept without the bases that git has added', () => {
  const objects = ['1', '2', 'base'].map(object)
  const found = toRecentPack(update, packOf(2), objects, new Set(['base', 'other']))
  assert.deepEqual(found, { ...update, entries: Buffer.from('entries'), ids: new Set(['1', '2']) })
})

test('a base that another client may not have keeps it from being sent', () => {
  const objects = ['1', '2', 'base'].map(object)
  assert.equal(toRecentPack(update, packOf(2), objects, new Set(['other'])), undefined)
})

test('what follows a pack, or a pack that has an object twice, is not sent', () => {
  const objects = ['1', '2'].map(object)
  const pack = Buffer.concat([packOf(2), Buffer.from('more')])
  assert.equal(toRecentPack(update, pack, objects, new Set()), undefined)
  assert.equal(toRecentPack(update, packOf(2), ['1', '1'].map(object), new Set()), undefined)
})
