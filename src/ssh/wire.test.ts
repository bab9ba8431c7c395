import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { writeMpint } from '../../test/support/ssh-keys.ts'
import { createReader, writeString, writeUint32 } from './wire.ts'

test('written values are read back', () => {
  fc.assert(
    fc.property(fc.nat(), fc.uint8Array(), fc.string(), fc.boolean(), (number, bytes, text, is) => {
      const written = [writeUint32(number), writeString(bytes), writeString(text), Buffer.of(+is)]
      const reader = createReader(Buffer.concat([...written, Buffer.of(7)]))
      assert.equal(reader.uint32(), number)
      assert.deepEqual(reader.string(), Buffer.from(bytes))
      assert.equal(reader.text(), Buffer.from(text).toString())
      assert.equal(reader.boolean(), is)
      assert.throws(() => reader.assertEnd(), RangeError)
      assert.equal(reader.byte(), 7)
      reader.assertEnd()
    }),
  )
})

test('truncated bytes are a RangeError at any length', () => {
  const whole = Buffer.concat([writeUint32(7), Buffer.of(1), writeString('text')])
  for (let length = 0; length < whole.length; length++) {
    const reader = createReader(whole.subarray(0, length))
    assert.throws(() => [reader.uint32(), reader.byte(), reader.string()], RangeError)
  }
  assert.throws(() => createReader(Buffer.from('ffffffff00', 'hex')).string(), RangeError)
})

// The examples of RFC 4251, section 5, as far as they are not negative.
test('numbers have one canonical form', () => {
  const cases = { '09a378f9b2e332a7': '0809a378f9b2e332a7', '80': '020080', '0000': '00' }
  for (const [number, expected] of Object.entries(cases)) {
    assert.equal(writeMpint(Buffer.from(number, 'hex')).toString('hex'), `000000${expected}`)
  }
  const read = (hex: string) => createReader(writeString(Buffer.from(hex, 'hex'))).positiveMpint()
  assert.equal(read('0080').toString('hex'), '80')
  assert.equal(read('7f').toString('hex'), '7f')
  for (const hex of ['', '00', '80', '0001', '000080']) assert.throws(() => read(hex), RangeError)
})
