import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createHostAddresses } from './host-addresses.ts'

test('a lookup is cached for some seconds, and concurrent lookups are coalesced', async () => {
  let time = 0
  const lookups: string[] = []
  const resolve = async (host: string): Promise<[string]> => {
    lookups.push(host)
    return [`10.0.0.${lookups.length}`]
  }
  const addressesOf = createHostAddresses({ outbound: { resolve }, now: () => time })
  const both = await Promise.all([addressesOf('a.example'), addressesOf('a.example')])
  assert.deepEqual(both, [['10.0.0.1'], ['10.0.0.1']])
  time = 4999
  assert.deepEqual(await addressesOf('a.example'), ['10.0.0.1'])
  time = 5000
  assert.deepEqual(await addressesOf('a.example'), ['10.0.0.2'])
  assert.deepEqual(lookups, ['a.example', 'a.example'])
})

test('a rejection is not cached', async () => {
  let isAllowed = false
  const resolve = async (): Promise<[string]> => {
    if (!isAllowed) throw new Error('forbidden')
    return ['10.0.0.1']
  }
  const addressesOf = createHostAddresses({ outbound: { resolve } })
  await assert.rejects(addressesOf('a.example'), /forbidden/)
  isAllowed = true
  assert.deepEqual(await addressesOf('a.example'), ['10.0.0.1'])
})

test('names that do not resolve do not delay lookups of known hosts', async () => {
  let time = 0
  let waiting = 0
  const { promise: silence } = Promise.withResolvers<never>()
  const resolve = async (host: string): Promise<[string]> => {
    if (host !== 'good.example') {
      waiting += 1
      return silence
    }
    return ['10.0.0.1']
  }
  const addressesOf = createHostAddresses({ outbound: { resolve }, now: () => time })
  await addressesOf('good.example')
  for (let n = 0; n < 100; n++) addressesOf(`slow${n}.example`).catch(assert.ifError)
  time = 10_000
  assert.deepEqual(await addressesOf('good.example'), ['10.0.0.1'])
  assert.equal(waiting, 16)
})
