import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toJson } from './json-routes.ts'

test('a list of any length has the JSON that it has at once', async () => {
  for (const length of [0, 1, 99, 100, 101, 200, 950]) {
    const list = Array.from({ length }, (_, index) => ({
      id: index,
      text: `é"\\${index}`,
      no: null,
    }))
    assert.equal(String(await toJson(list)), `${JSON.stringify(list)}\n`)
  }
  const other = [undefined, () => {}, [], 'x', Number.NaN]
  const mixed = Array.from({ length: 30 }, () => other).flat()
  assert.equal(String(await toJson(mixed)), `${JSON.stringify(mixed)}\n`)
  assert.equal(await toJson({ a: [1] }), '{"a":[1]}\n')
})

test('other events are handled while a long list is encoded', async () => {
  let encoded = 0
  let mostAtOnce = 0
  const slow = {
    toJSON() {
      const startedAt = performance.now()
      while (performance.now() - startedAt < 0.1);
      encoded += 1
      return 'x'
    },
  }
  let isOver = false
  const watch = () => {
    mostAtOnce = Math.max(mostAtOnce, encoded)
    encoded = 0
    if (!isOver) setImmediate(watch)
  }
  setImmediate(watch)
  await toJson(Array.from({ length: 600 }, () => slow))
  isOver = true
  mostAtOnce = Math.max(mostAtOnce, encoded)
  assert.ok(mostAtOnce <= 100, `${mostAtOnce} entries at once`)
})
