import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createKeyedMutex } from './keyed-mutex.ts'

test('work of one key runs in order, one at a time, also after a failure; other keys do not wait', async () => {
  const serialize = createKeyedMutex()
  const order: string[] = []
  const first = Promise.withResolvers<never>()
  const work = (name: string) => async () => void order.push(name)
  const failing = serialize('a', () => first.promise)
  const others = [serialize('a', work('second')), serialize('a', work('third'))]
  await serialize('b', work('other key'))
  assert.deepEqual(order, ['other key'])
  first.reject(new Error('failed'))
  await assert.rejects(failing, /failed/)
  await Promise.all(others)
  assert.deepEqual(order, ['other key', 'second', 'third'])
})
