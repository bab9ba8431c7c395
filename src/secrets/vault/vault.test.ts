import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { inspect } from 'node:util'
import fc from 'fast-check'
import { Sensitive } from '#base/sensitive.ts'
import { createVault, type SecretBinding, type Vault } from './vault.ts'

const [old, next] = [randomBytes(32), randomBytes(32)]
const vaultOf = (...keys: Buffer[]) => createVault(new Sensitive(keys))
const vault = vaultOf(old)
const place = { scopeId: 'r1', name: 'TOKEN' }
const seal = (value: string, at: SecretBinding = place, by: Vault = vault) =>
  by.seal(new Sensitive(value), at).sealedValue

function open(sealedValue: Uint8Array, at: SecretBinding = place, by: Vault = vault): string {
  const opened = by.open(sealedValue, at)
  return 'value' in opened ? opened.value.reveal() : `fault: ${opened.fault}`
}

const damaged = 'fault: the stored value is damaged, or belongs to another secret'

test('a value can be opened, only for its repository and name', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'grapheme' }),
      fc.string(),
      fc.string(),
      (value, scopeId, name) => {
        const sealed = seal(value, { scopeId, name })
        assert.equal(open(sealed, { scopeId, name }), value)
        assert.equal(open(sealed, { scopeId, name: `${name}x` }), damaged)
        assert.equal(open(sealed, { scopeId: `${scopeId}x`, name }), damaged)
      },
    ),
    { numRuns: 200 },
  )
  assert.equal(open(seal('x', { scopeId: 'a', name: 'bc' }), { scopeId: 'ab', name: 'c' }), damaged)
})

test('a change of any bit is detected, and so is truncation', () => {
  const sealed = seal('hush')
  assert.equal(sealed.length, 1 + 8 + 12 + 4 + 16)
  for (let at = 0; at < sealed.length; at++) {
    for (let bit = 0; bit < 8; bit++) {
      const other = Buffer.from(sealed)
      other[at] = (other[at] ?? 0) ^ (1 << bit)
      const found = open(other)
      if (at >= 1 && at < 9)
        assert.match(found, /^fault: it is sealed with a key that is not configured/)
      else assert.equal(found, damaged)
    }
    assert.equal(open(sealed.subarray(0, at)), damaged)
  }
  assert.equal(open(Buffer.concat([sealed, Buffer.of(0)])), damaged)
})

test('the first key encrypts and all decrypt; a missing key is named by its id', () => {
  const both = vaultOf(next, old)
  const [nextId, oldId] = both.keyIds
  assert.deepEqual([vault.keyIds, vaultOf(old, old).keyIds], [[oldId], [oldId]])
  assert.equal(open(seal('hush'), place, both), 'hush')
  const { keyId, sealedValue } = both.seal(new Sensitive('hush'), place)
  assert.equal(keyId, nextId)
  assert.equal(
    open(sealedValue),
    `fault: it is sealed with a key that is not configured, ${nextId}`,
  )
  assert.match(`${nextId}`, /^[0-9a-f]{16}$/)
  assert.ok(!next.toString('hex').includes(`${nextId}`))
})

test('the same value is encrypted differently each time', () => {
  const all = Array.from({ length: 1000 }, () => Buffer.from(seal('hush')).toString('hex'))
  assert.equal(new Set(all).size, all.length)
})

test('without a key nothing is encrypted or decrypted', () => {
  const empty = vaultOf()
  assert.deepEqual(empty.keyIds, [])
  assert.throws(() => seal('hush', place, empty), /no key to encrypt with/)
  assert.match(open(seal('hush'), place, empty), /^fault: .*key that is not configured/)
})

test('neither the vault nor an opened value prints a key or a value', () => {
  const shown = inspect([vault, vault.open(seal('hush-hush'), place)], {
    depth: 9,
    showHidden: true,
  })
  const json = JSON.stringify([vault, vault.open(seal('hush-hush'), place)])
  for (const text of [shown, json]) {
    assert.ok(!text.includes('hush-hush') && !text.includes(old.toString('base64')))
  }
})
