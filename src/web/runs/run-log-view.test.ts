import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLinks } from '../links.ts'
import { newLogBudget, stepLog } from './run-log-view.ts'

test('the logs of a page have a limit in lines and in characters, and say what is not shown', () => {
  const budget = newLogBudget()
  const step = (output: string) =>
    stepLog({ number: 1, name: 'x', output } as Parameters<typeof stepLog>[0], {
      logHref: createLinks('').home(),
      isOpen: true,
      budget,
    }).text
  const long = `${'\u001b[31ma\u001b[32mb\u0001'.repeat(40_000)}\n`
  const pages = Array.from({ length: 20 }, () => step(long))
  assert.match(pages[0] ?? '', /<span class="ansi-red">a/)
  assert.doesNotMatch(pages[0] ?? '', /not shown/)
  assert.match(pages.at(-1) ?? '', /1 earlier line is not shown here/)
  assert.ok(pages.join('').length < 8 * 1024 * 1024)
})
