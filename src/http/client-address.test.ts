import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'
import { test } from 'node:test'
import { readSettings, SettingsError } from '../config/settings.ts'
import { createClientAddress } from './client-address.ts'

function addressOf(trusted: string, remoteAddress: string, forwarded?: string): string {
  const { trustedProxies } = readSettings({ SVC_TRUSTED_PROXIES: trusted })
  const headers = forwarded === undefined ? {} : { 'x-forwarded-for': forwarded }
  // All that is read of a request.
  const request = { socket: { remoteAddress }, headers } as unknown as IncomingMessage
  return createClientAddress(trustedProxies)(request)
}

test('without trusted proxies the peer is the client, regardless of its headers', () => {
  assert.equal(addressOf('', '127.0.0.1', '203.0.113.9'), '127.0.0.1')
  assert.equal(addressOf('', '::ffff:192.0.2.1', '203.0.113.9'), '192.0.2.1')
  assert.equal(addressOf('10.0.0.0/8', '192.0.2.1', '203.0.113.9'), '192.0.2.1')
})

test('behind trusted proxies, the last address that is not a proxy counts', () => {
  const proxies = '127.0.0.1, 10.0.0.0/8,2001:db8::/32'
  for (const [peer, forwarded, client] of [
    ['127.0.0.1', '203.0.113.9', '203.0.113.9'],
    ['2001:db8::1%eth0', '203.0.113.9', '203.0.113.9'],
    ['::ffff:127.0.0.1', '203.0.113.9', '203.0.113.9'],
    ['127.0.0.1', undefined, '127.0.0.1'],
    // A client may begin the list with what it likes.
    ['127.0.0.1', '198.51.100.7, 203.0.113.9', '203.0.113.9'],
    ['127.0.0.1', '127.0.0.1, 203.0.113.9, 10.1.2.3', '203.0.113.9'],
    ['2001:db8::1', '203.0.113.9,2001:db8::2 , 10.0.0.1', '203.0.113.9'],
    ['127.0.0.1', '2a00::5', '2a00::5'],
    ['127.0.0.1', '203.0.113.9:4711', '203.0.113.9'],
    ['127.0.0.1', '[2a00::5]:4711', '2a00::5'],
    // All of them are proxies: the first one began it.
    ['127.0.0.1', '10.0.0.2, 10.0.0.1', '10.0.0.2'],
    // What is no address was not written by a proxy that can be trusted.
    ['127.0.0.1', 'unknown', '127.0.0.1'],
    ['127.0.0.1', '203.0.113.9, x, 10.0.0.1', '10.0.0.1'],
    ['127.0.0.1', '', '127.0.0.1'],
  ] as const)
    assert.equal(addressOf(proxies, peer, forwarded), client, `${peer}: ${forwarded}`)
})

test('only addresses and CIDRs are accepted', () => {
  for (const text of ['proxy', '10.0.0.0/33', '10.0.0', '10.0.0.1,', '::1/129', '*', '0x7f.1'])
    assert.throws(() => addressOf(text, '127.0.0.1'), SettingsError, text)
})
