import assert from 'node:assert/strict'
import { Writable } from 'node:stream'
import { test } from 'node:test'
import fc from 'fast-check'
import { createLog, type Log } from './log.ts'
import { newTokenString } from './token-string.ts'

const levels = ['debug', 'info', 'warn', 'error'] as const
const lookalikes = ['svc', 'svc_', 'svc_repositories', 'SVC_LOG_LEVEL', 'svc_git_limiter_waiting']
const tokens = fc
  .constantFrom(
    ...Array.from({ length: 5 }, newTokenString),
    `svcrun_${'A-b_cDeFgHiJkLmNoPqRsTuVwXyZ0123'}`,
  )
  .chain((token) =>
    fc.constantFrom(
      token,
      token.replace('_', '%5F'),
      token.replace('_', '%5f'),
      token.slice(0, 30),
    ),
  )
const around = fc.string({ maxLength: 20 })
const places: ((log: Log, level: (typeof levels)[number], text: string) => void)[] = [
  (log, level, text) => log[level](text),
  (log, level, text) => log[level]({ text }, 'a message'),
  (log, level, text) => log[level]({ a: [{ b: { c: text } }] }, 'a message'),
  (log, level, text) => log[level]({ [text]: 1 }, 'a message'),
  (log, level, text) => log[level]({ err: new Error(text) }, 'a message'),
  (log, level, text) =>
    log[level]({ err: new Error('a', { cause: Object.assign(new Error(text), { text }) }) }),
]

for (const isTTY of [false, true]) {
  test(`no token appears in the log${isTTY ? ' on a terminal' : ''}`, () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...levels),
        fc.constantFrom(...places),
        tokens,
        around,
        around,
        (level, place, token, before, after) => {
          const { log, written } = createCapture(isTTY)
          place(log, level, `${before}${token}${after}`)
          assert.notEqual(written(), '')
          assert.ok(!written().includes(token.slice(-12)), written())
        },
      ),
    )
  })
}

test('no percent-encoded token appears in the log', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(2)), (times) => {
      const token = newTokenString()
      const { log, written } = createCapture(false)
      const encoded = [...token].map((character, at) => {
        const count = times[at] ?? 0
        const hex = Buffer.from(character).toString('hex')
        return count === 0 ? character : `%${'25'.repeat(count - 1)}${hex}`
      })
      log.info({ path: `/repos/${encoded.join('')}` }, 'request')
      assert.ok(!written().includes(encoded.slice(-12).join('')), written())
    }),
  )
})

test('text that only resembles a token stays, and each entry stays one line', () => {
  const { log, written } = createCapture(false)
  for (const text of lookalikes) log.info({ text }, newTokenString())
  const lines = written().trimEnd().split('\n')
  assert.deepEqual(
    lines.map((line) => JSON.parse(line).text),
    lookalikes,
  )
  assert.ok(lines.every((line) => JSON.parse(line).msg === 'svc_[hidden]'))
})

function createCapture(isTTY: boolean) {
  let text = ''
  const output = new Writable({
    write(chunk, _encoding, done) {
      text += chunk
      done()
    },
  })
  const log = createLog({ level: 'debug', output: Object.assign(output, { isTTY }) })
  return { log, written: () => text }
}
