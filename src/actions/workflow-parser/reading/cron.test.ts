import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cronFault, nextTime } from './cron.ts'

test('the next time is strictly after the given one, in UTC or the given time zone', () => {
  const next = (cron: string, after: string, timezone?: string) =>
    new Date(nextTime(cron, timezone, Date.parse(after))).toISOString()
  const cases: [cron: string, after: string, expected: string, timezone?: string][] = [
    ['*/5 * * * *', '2025-01-01T00:00:00Z', '2025-01-01T00:05:00.000Z'],
    ['*/5 * * * *', '2025-01-01T00:04:59.999Z', '2025-01-01T00:05:00.000Z'],
    ['20/15 * * * *', '2025-01-01T00:00:00Z', '2025-01-01T00:20:00.000Z'],
    ['0 0 * * 7', '2025-01-01T00:00:00Z', '2025-01-05T00:00:00.000Z'],
    ['0 0 * * MON-fri', '2025-01-04T00:00:00Z', '2025-01-06T00:00:00.000Z'],
    ['0 0 29 2 *', '2025-01-01T00:00:00Z', '2028-02-29T00:00:00.000Z'],
    // As POSIX has it, one of day and weekday is enough.
    ['0 0 13 * 5', '2025-01-04T00:00:00Z', '2025-01-10T00:00:00.000Z'],
    ['30 2 * * *', '2025-01-01T00:00:00Z', '2025-01-01T01:30:00.000Z', 'Europe/Berlin'],
    // An hour that does not exist on that day comes when it would have come.
    ['30 2 * * *', '2025-03-29T12:00:00Z', '2025-03-30T01:00:00.000Z', 'Europe/Berlin'],
    // One that exists twice comes once.
    ['30 2 * * *', '2025-10-26T00:30:00Z', '2025-10-27T01:30:00.000Z', 'Europe/Berlin'],
  ]
  for (const [cron, after, expected, timezone] of cases) {
    assert.equal(cronFault(cron, timezone), undefined, cron)
    assert.equal(next(cron, after, timezone), expected, `${cron} after ${after}`)
  }
})

test('schedules beyond POSIX are rejected', () => {
  const refused = [
    '',
    '* * * *',
    '* * * * * *',
    '@daily',
    '60 * * * *',
    '* 24 * * *',
    '* * 0 * *',
    '* * * 13 *',
    '* * * * 8',
    '5-1 * * * *',
    '*/0 * * * *',
    '1,,2 * * * *',
    '* * L * *',
    '* * 15W * *',
    '* * ? * *',
    '* * * * 1#2',
    '+1 * * * *',
    '0 0 30 2 *',
    `${'1,'.repeat(1000)}1 * * * *`,
  ]
  for (const cron of refused) assert.ok(cronFault(cron, undefined), cron)
  assert.ok(cronFault('* * * * *', 'Mars/Base'))
})
