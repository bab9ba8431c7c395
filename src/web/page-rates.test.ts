import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Principal } from '../access/principal.ts'
import { createPageRates } from './page-rates.ts'
import type { Visit } from './visits.ts'

const clock = { now: () => 0 }

function visitOf(username: string, id: string): Pick<Visit, 'open'> {
  const principal: Principal = { kind: 'token', id, username, permissions: new Set(['admin']) }
  return { open: { principal } as Visit['open'] }
}

function pagesUntilLimited(limit: () => void): number {
  for (let pages = 0; ; pages++) {
    try {
      limit()
    } catch {
      return pages
    }
  }
}

test('the sessions of a user share a rate, also of several tokens, and users do not', () => {
  const limitRate = createPageRates({ clock })
  const pagesOf = (username: string, id: string) =>
    pagesUntilLimited(() => limitRate(visitOf(username, id), { address: '192.0.2.1' }, 'light'))
  assert.ok(pagesOf('ada', 'first') > 0)
  assert.equal(pagesOf('ada', 'second'), 0)
  assert.ok(pagesOf('bob', 'third') > 0)
})

test('without a session, the addresses of a network share a rate', () => {
  const limitRate = createPageRates({ clock })
  const pagesFrom = (address: string) =>
    pagesUntilLimited(() => limitRate({ open: undefined }, { address }, 'light'))
  assert.ok(pagesFrom('2001:db8::1') > 0)
  assert.equal(pagesFrom('2001:db8::2'), 0)
  assert.ok(pagesFrom('2001:db8:1::1') > 0)
})
