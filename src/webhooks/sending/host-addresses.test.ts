import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createOutbound } from '#base/outbound/outbound.ts'
import { createHostAddresses } from './host-addresses.ts'

const outboundBy = (addressOf: (host: string) => string) =>
  createOutbound({
    allow: { classes: ['private'], ranges: [], names: [] },
    lookup: async (host) => [{ address: addressOf(host) }],
  })

test('a lookup is cached for some seconds, and concurrent lookups are coalesced', async () => {
  let time = 0
  const lookups: string[] = []
  const outbound = outboundBy((host) => `10.0.0.${lookups.push(host)}`)
  const addressesOf = createHostAddresses({ outbound, now: () => time })
  const both = await Promise.all([addressesOf('a.example', 'ada'), addressesOf('a.example', 'ada')])
  assert.deepEqual(both, [['10.0.0.1'], ['10.0.0.1']])
  time = 4999
  assert.deepEqual(await addressesOf('a.example', 'ada'), ['10.0.0.1'])
  time = 5000
  assert.deepEqual(await addressesOf('a.example', 'ada'), ['10.0.0.2'])
  assert.deepEqual(lookups, ['a.example', 'a.example'])
})

test('a rejection is not cached', async () => {
  let isAllowed = false
  const outbound = outboundBy(() => (isAllowed ? '10.0.0.1' : '127.0.0.1'))
  const addressesOf = createHostAddresses({ outbound })
  await assert.rejects(addressesOf('a.example', 'ada'), { code: 'outbound_forbidden' })
  isAllowed = true
  assert.deepEqual(await addressesOf('a.example', 'ada'), ['10.0.0.1'])
})
