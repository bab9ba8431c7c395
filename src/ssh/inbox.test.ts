import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createInbox } from './inbox.ts'

test('what is pushed in pieces of any size is read whole and in order', async () => {
  let taken = 0
  const inbox = createInbox((bytes) => {
    taken += bytes
  })
  const sizes = [1, 2, 3, 5000, 1, 8192, 4095, 4096, 1, 1, 9000, 7]
  const sent = sizes.map((size, index) => Buffer.alloc(size, index))
  const read = inbox.read(new AbortController().signal)
  const got: Buffer[] = []
  for (const [index, piece] of sent.entries()) {
    inbox.push(piece)
    const next = index % 4 === 3 ? await read.next() : undefined
    if (next?.value) got.push(next.value)
  }
  inbox.end('ended')
  for await (const piece of read) got.push(piece)
  assert.deepEqual(Buffer.concat(got), Buffer.concat(sent))
  assert.equal(taken, Buffer.concat(sent).length)
})
