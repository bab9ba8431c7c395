import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RunEntry } from '../workflow-engine/plan.ts'
import { createReporter } from './reporter.ts'

type Report = { first: number; entries: RunEntry[] }

const never = new AbortController().signal

test('entries are reported in order, each once, and new ones are added to the next report', async () => {
  const { reporter, reports, response } = start()
  await reporter.report(line('a'))
  await reporter.report(line('b'))
  await settle()
  await reporter.report(line('c'))
  await reporter.report(line('d'))
  assert.deepEqual(toTexts(reports), [['a', 'b']])
  response({ next: 2, cancel: null })
  await settle()
  response({ next: 4, cancel: null })
  await reporter.flush(never)
  assert.deepEqual(toTexts(reports), [
    ['a', 'b'],
    ['c', 'd'],
  ])
  assert.deepEqual(
    reports.map(({ first }) => first),
    [0, 2],
  )
})

test('a failed report is sent again', async () => {
  const { reporter, reports, response } = start()
  for (const text of ['a', 'b', 'c']) await reporter.report(line(text))
  await settle()
  response({ next: 1, cancel: null })
  await settle()
  assert.deepEqual(reports[1], { first: 1, entries: [line('b'), line('c')] })
})

test('emitting waits while many entries are unreported', async () => {
  const { reporter, response } = start()
  const long = line('x'.repeat(60_000))
  let count = 0
  let wait: Promise<void> | undefined
  while (!wait) {
    wait = reporter.report(long) ?? undefined
    count++
  }
  assert.ok(count >= 17 && count <= 18, `${count}`)
  let isOver = false
  void wait.then(() => {
    isOver = true
  })
  await settle()
  assert.equal(isOver, false)
  response({ next: 8, cancel: null })
  await wait
})

test('a report stays within its limits', async () => {
  const { reporter, reports, response } = start()
  for (let n = 0; n < 1200; n++) void reporter.report(line(`${n}`))
  for (let n = 0; n < 20; n++) void reporter.report(line('\u0001'.repeat(60_000)))
  let next = 0
  for (let round = 0; round < 40 && next < 1220; round++) {
    await settle()
    const last = reports.at(-1)
    assert.ok(last && last.entries.length <= 500)
    assert.ok(Buffer.byteLength(JSON.stringify(last)) <= 512 * 1024)
    next = last.first + last.entries.length
    response({ next, cancel: null })
  }
  assert.equal(next, 1220)
})

test('a server that has lost entries, or sends an invalid response, ends the reporting', async () => {
  for (const wrong of [{ next: 0, cancel: null }, { next: 7, cancel: null }, {}, undefined]) {
    const { reporter, response, errors } = start()
    await reporter.report(line('a'))
    await settle()
    response(wrong)
    await reporter.flush(never)
    assert.equal(errors.length, 1)
    assert.equal(reporter.report(line('b')), undefined)
  }
})

test('the orders of the server are passed on', async () => {
  const { reporter, response, cancels } = start()
  await reporter.report(line('a'))
  await settle()
  response({ next: 1, cancel: 'Cancelled by ada.' })
  await reporter.flush(never)
  assert.deepEqual(cancels, ['Cancelled by ada.'])
})

/** A reporter, and the server's side of its connection. */
function start() {
  const reports: Report[] = []
  const errors: unknown[] = []
  const cancels: (string | null)[] = []
  const responses: ((response: unknown) => void)[] = []
  const reporter = createReporter({
    connection: {
      request({ body = '' }) {
        reports.push(JSON.parse(body))
        return new Promise((resolve) => responses.push(resolve))
      },
    },
    onResponse: (cancel) => cancels.push(cancel),
    onError: (error) => errors.push(error),
    batchDelayMs: 0,
  })
  return {
    reporter,
    reports,
    errors,
    cancels,
    response: (value: unknown) => responses.shift()?.(value),
  }
}

function line(text: string): RunEntry {
  return { kind: 'output', step: 0, text }
}

function toTexts(reports: Report[]): string[][] {
  return reports.map(({ entries }) => entries.map((entry) => ('text' in entry ? entry.text : '')))
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate)
}
