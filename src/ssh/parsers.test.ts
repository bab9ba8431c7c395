import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import fc from 'fast-check'
import { toRounds } from '../../test/support/rounds.ts'
import { isKeyType, keyTypeNames, readKeyBlob } from './key-blob.ts'
import { PublicKeyError } from './public-key-error.ts'
import { verifySignature } from './signature.ts'
import { createReader, message, writeString } from './wire.ts'

const bytes = fc.uint8Array({ maxLength: 200 }).map((array) => Buffer.from(array))
const methods = ['byte', 'uint32', 'string', 'boolean', 'text', 'positiveMpint', 'names'] as const

test('reading arbitrary bytes returns values within them or throws a RangeError', () => {
  fc.assert(
    fc.property(bytes, fc.array(fc.constantFrom(...methods)), (buffer, calls) => {
      const reader = createReader(buffer)
      try {
        for (const call of calls) reader[call]()
        reader.assertEnd()
      } catch (error) {
        assert.ok(error instanceof RangeError)
      }
      assert.ok(reader.position() <= buffer.length)
    }),
    { numRuns: toRounds(800) },
  )
})

test('an almost valid key is rejected and verifies nothing', () => {
  const fields = fc.array(bytes, { maxLength: 4 })
  fc.assert(
    fc.property(fc.constantFrom(...keyTypeNames), fields, bytes, (type, parts, signature) => {
      assert.ok(isKeyType(type))
      const blob = message(0, type, ...parts).subarray(1)
      const whole = Buffer.concat([writeString(type), writeString(signature)])
      for (const signed of [signature, whole]) {
        assert.ok(!verifySignature({ blob, algorithm: type, signature: signed, data: blob }))
      }
      try {
        readKeyBlob(type, blob)
      } catch (error) {
        assert.ok(error instanceof PublicKeyError)
      }
    }),
    { numRuns: toRounds(400) },
  )
})
