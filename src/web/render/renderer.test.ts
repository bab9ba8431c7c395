import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { after, test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Worker } from 'node:worker_threads'
import { exhaustive } from '../../../test/support/exhaustive.ts'
import { decode, readPage } from '../../../test/support/page-markup.ts'
import { sampleOf } from '../../../test/support/rounds.ts'
import { slowDocuments, slowFiles } from '../../../test/support/slow-inputs.ts'
import { createRenderer } from './renderer.ts'

const place = { src: '/r/x/src/main', raw: '/r/x/raw/main', folder: '' }
const small = { kind: 'code', text: 'int x;', fileName: 'x.c' } as const
const document = { kind: 'markdown', text: '*x*', place } as const
/** The time for it grows with the square of its length: seconds for the one, hours for the other. */
const slow = { kind: 'code', text: 'a'.repeat(100_000), fileName: 'x.c' } as const
const endless = { kind: 'code', text: 'a'.repeat(10_000_000), fileName: 'x.c' } as const

const logged: unknown[] = []
const log = { error: (...entry: unknown[]) => logged.push(entry) }

/** The threads that this process has started. */
const threads: Worker[] = []
const onThread = (message: unknown) => threads.push((message as { worker: Worker }).worker)
subscribe('worker_threads', onThread)
after(() => unsubscribe('worker_threads', onThread))

test('while the thread is busy the event loop goes on, and the thread ends when it is not wanted', async () => {
  const renderer = createRenderer({ log, timeoutMs: 3_600_000 })
  await renderer.render('small', small)
  let isAnswered = false
  const answer = renderer.render('endless', endless).finally(() => {
    isAnswered = true
  })
  for (let turn = 0; turn < 1000; turn += 1) await nextTurn()
  assert.equal(isAnswered, false)
  await renderer[Symbol.asyncDispose]()
  assert.equal(await answer, undefined)
  assert.equal(threads.at(-1)?.threadId, -1)
})

test('a slow file is shown as text, its thread is ended, and it is not rendered again', async () => {
  await using renderer = createRenderer({ log })
  await renderer.render('small', small)
  const used = threads.length
  assert.equal(await renderer.render('slow', slow), undefined)
  // Node sets it when a thread has ended.
  assert.equal(threads.at(-1)?.threadId, -1)
  assert.equal(await renderer.render('slow', slow), undefined)
  assert.equal(threads.length, used)
  assert.match((await renderer.render('next', document))?.text ?? '', /<em>x/)
  assert.equal(threads.length, used + 1)
})

test(
  'files in all languages that are slow for some are shown whole, or as text',
  exhaustive,
  async () => {
    await using renderer = createRenderer({ log })
    for (const { name, fileName, text } of sampleOf(slowFiles, 24)) {
      const rendered = await renderer.render(name, { kind: 'code', text, fileName })
      if (rendered) assert.equal(decode(rendered.text.replace(/<[^<>]*>/g, '')), `${text}\n`, name)
    }
    assert.match((await renderer.render('small', small))?.text ?? '', /h-type/)
  },
)

test(
  'documents that are slow for some are shown with our markup alone, or as text',
  exhaustive,
  async () => {
    await using renderer = createRenderer({ log })
    for (const { name, text } of sampleOf(slowDocuments, 12)) {
      const rendered = await renderer.render(name, { kind: 'markdown', text, place })
      assert.deepEqual(readPage(rendered?.text ?? '').faults, [], name)
    }
    assert.match((await renderer.render('last', document))?.text ?? '', /<em>x/)
  },
)

test('when many files wait, the next is shown as text at once, and nothing is remembered', async () => {
  await using renderer = createRenderer({ log, maxWaiting: 1 })
  const [first, second] = await Promise.all([
    renderer.render('a', small),
    renderer.render('b', small),
  ])
  assert.ok(first)
  assert.equal(second, undefined)
  assert.ok(await renderer.render('b', small))
})

test('a thread that cannot be loaded is logged each time, and no file is remembered for it', async () => {
  const program = new URL('./missing-worker.ts', import.meta.url)
  await using renderer = createRenderer({ log, program })
  for (const times of [1, 2]) {
    assert.equal(await renderer.render('small', small), undefined)
    assert.equal(logged.length, times)
  }
  assert.match(JSON.stringify(logged), /render thread not started/)
})
