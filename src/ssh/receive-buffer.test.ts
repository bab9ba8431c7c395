import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import { createReceiveBuffer } from './receive-buffer.ts'

const sizes = fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1000, max: 1050 }))
const step = fc.record({ size: sizes, takes: fc.integer({ min: 0, max: 2 }) })

test('pushed bytes are read completely and in order, in any pieces', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 100 }), async (steps) => {
      const pushed: Buffer[] = []
      const taken: Buffer[] = []
      let counted = 0
      const inbox = createReceiveBuffer((bytes) => {
        counted += bytes
      })
      const reading = inbox.read(new AbortController().signal)
      let waiting = 0
      for (const { size, takes } of steps) {
        const chunk = randomBytes(size)
        pushed.push(chunk)
        inbox.push(chunk)
        waiting += size
        for (let times = 0; times < takes && waiting > 0; times++) {
          const { value } = await reading.next()
          if (!value) assert.fail('It ended early.')
          taken.push(Buffer.from(value))
          waiting -= value.length
        }
      }
      inbox.end('ended')
      for await (const chunk of reading) taken.push(Buffer.from(chunk))
      assert.deepEqual(Buffer.concat(taken), Buffer.concat(pushed))
      assert.equal(counted, Buffer.concat(pushed).length)
    }),
    { numRuns: 300 },
  )
})

test('a chunk that was read is not changed by later ones', async () => {
  const inbox = createReceiveBuffer(() => {})
  for (const letter of 'abc') inbox.push(Buffer.from(letter))
  const reading = inbox.read(new AbortController().signal)
  const chunks = [(await reading.next()).value, (await reading.next()).value]
  for (const letter of 'defg') inbox.push(Buffer.from(letter))
  assert.deepEqual(chunks.map(String), ['a', 'bc'])
})

test('what is discarded counts as read, until the client ends it or sends too much', async () => {
  for (const isEnded of [true, false]) {
    let counted = 0
    const inbox = createReceiveBuffer((bytes) => {
      counted += bytes
    })
    await inbox.discard(10)
    inbox.push(Buffer.alloc(4))
    const discarded = inbox.discard(10)
    inbox.push(Buffer.alloc(5))
    assert.equal(counted, 9)
    const outcome = Promise.race([discarded, setImmediate('pending')])
    assert.equal(await outcome, 'pending')
    if (isEnded) inbox.end('ended')
    else inbox.push(Buffer.alloc(2))
    await discarded
  }
})
