import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listAll } from './list-all.ts'

const rows = Array.from({ length: 1700 }, (_, index) => ({ id: String(index).padStart(6, '0') }))

test('a list is read in pages, from where it starts, and other events are handled between them', async () => {
  for (const count of [0, 1, 499, 500, 501, 1000, 1700]) {
    const lengths: number[] = []
    const all = await listAll('', async ({ after, limit }) => {
      const page = rows
        .slice(0, count)
        .filter(({ id }) => id > after)
        .slice(0, limit)
      lengths.push(page.length)
      return page
    })
    assert.deepEqual(all, rows.slice(0, count))
    assert.ok(Math.max(...lengths) <= 500)
  }
  let [atOnce, mostAtOnce, isOver] = [0, 0, false]
  const watch = () => {
    atOnce = 0
    if (!isOver) setImmediate(watch)
  }
  setImmediate(watch)
  await listAll('', async ({ after, limit }) => {
    const page = rows.filter(({ id }) => id > after).slice(0, limit)
    atOnce += page.length
    mostAtOnce = Math.max(mostAtOnce, atOnce)
    return page
  })
  isOver = true
  assert.equal(mostAtOnce, 500)
  const last = await listAll(rows[1698]?.id ?? '', async ({ after }) =>
    rows.filter(({ id }) => id > after),
  )
  assert.deepEqual(last, [rows[1699]])
})
