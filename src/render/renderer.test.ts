import assert from 'node:assert/strict'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { test } from 'node:test'
import { createRenderer } from './renderer.ts'

const place = { src: '/r/x/src/main', raw: '/r/x/raw/main', folder: '' }
const fileOf = (pattern: string) => pattern.repeat(Math.ceil(40_000 / pattern.length))

test('a slow file is shown as text, is remembered, and delays no other work', async () => {
  await using renderer = createRenderer()
  // Loads the thread.
  await renderer.render('warm', { kind: 'code', text: 'x', fileName: 'x.c' })
  const delay = monitorEventLoopDelay({ resolution: 5 })
  delay.enable()
  const slow = { kind: 'code', text: fileOf('a'), fileName: 'x.c' } as const
  assert.equal(await renderer.render('slow', slow), undefined)
  delay.disable()
  // The thread was busy for longer than that.
  assert.ok(delay.percentile(90) / 1e6 < 100, `${delay.percentile(90) / 1e6} ms`)
  const startedAt = performance.now()
  assert.equal(await renderer.render('slow', slow), undefined)
  assert.ok(performance.now() - startedAt < 100)
  const after = await renderer.render('next', { kind: 'code', text: 'int x;', fileName: 'x.c' })
  assert.match(after?.text ?? '', /h-type/)
})

test('no pattern of characters keeps the thread for longer than its limit', async () => {
  await using renderer = createRenderer({ maxWaiting: 1000 })
  const patterns = [
    'a',
    '(',
    '"',
    '<a ',
    '/*',
    '[',
    '\\',
    'a.',
    '{{',
    '$(',
    "'''",
    '- ',
    '> ',
    '*a',
    '`',
    '![',
  ]
  const files = [
    'x.c',
    'x.js',
    'x.ts',
    'x.java',
    'x.php',
    'x.md',
    'x.rb',
    'x.sql',
    'x.html',
    'x.pl',
  ]
  let answered = 0
  for (const pattern of patterns) {
    const text = fileOf(pattern)
    await renderer.render(`md ${pattern}`, { kind: 'markdown', text, place })
    for (const fileName of files.slice(answered % 3, (answered % 3) + 3))
      await renderer.render(`${fileName} ${pattern}`, { kind: 'code', text, fileName })
    answered += 1
  }
  const html = await renderer.render('last', { kind: 'markdown', text: '*x*', place })
  assert.equal(html?.text.trim(), '<p><em>x</em></p>')
})

test('when many files wait, the next is shown as text at once, and nothing is remembered', async () => {
  await using renderer = createRenderer({ maxWaiting: 1 })
  const request = { kind: 'code', text: 'int x;', fileName: 'x.c' } as const
  const [first, second] = await Promise.all([
    renderer.render('a', request),
    renderer.render('b', request),
  ])
  assert.ok(first)
  assert.equal(second, undefined)
  assert.ok(await renderer.render('b', request))
})
