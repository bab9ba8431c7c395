import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'
import { test } from 'node:test'
import { readSettings, SettingsError } from '#config/settings.ts'
import { createForwarded } from './forwarded.ts'

type Headers = { host?: string; 'x-forwarded-for'?: string; 'x-forwarded-proto'?: string }

function forwardedOf(trusted: string, remoteAddress: string, headers: Headers) {
  const { trustedProxies } = readSettings({ SVC_TRUSTED_PROXIES: trusted })
  // All that is read of a request.
  const request = { socket: { remoteAddress }, headers } as unknown as IncomingMessage
  const { addressOf, originOf } = createForwarded(trustedProxies)
  return { address: addressOf(request), origin: originOf(request) }
}

function addressOf(trusted: string, remoteAddress: string, forwarded?: string): string {
  const headers = forwarded === undefined ? {} : { 'x-forwarded-for': forwarded }
  return forwardedOf(trusted, remoteAddress, headers).address
}

function originOf(headers: Headers, peer = '127.0.0.1', trusted = '127.0.0.1, 10.0.0.0/8') {
  return forwardedOf(trusted, peer, { host: 'git.example.com', ...headers }).origin
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
    ['127.0.0.1', '203.0.113.9, ', '127.0.0.1'],
    ['127.0.0.1', '203.0.113.9:4711:1', '127.0.0.1'],
    ['127.0.0.1', '203.0.113.9/32', '127.0.0.1'],
    ['127.0.0.1', '203.0.113.9\u0000', '127.0.0.1'],
    ['127.0.0.1', '[2a00::5', '127.0.0.1'],
    ['127.0.0.1', '0x7f.0.0.1', '127.0.0.1'],
    // An address has one spelling, and an IPv4 address in an IPv6 one is the same address.
    ['127.0.0.1', '2A00:0000::0:5', '2a00::5'],
    ['127.0.0.1', '::ffff:cb00:7109', '203.0.113.9'],
    ['127.0.0.1', '203.0.113.9, ::ffff:a01:203', '203.0.113.9'],
    ['127.0.0.1', '[fe80::1%eth0]:4711', 'fe80::1'],
    // As many as headers may have.
    ['127.0.0.1', `203.0.113.9${',10.0.0.1'.repeat(1600)}`, '203.0.113.9'],
    ['127.0.0.1', `10.0.0.1,203.0.113.9${',10.0.0.1'.repeat(1600)}`, '203.0.113.9'],
  ] as const)
    assert.equal(addressOf(proxies, peer, forwarded), client, `${peer}: ${forwarded}`)
})

test('only addresses and CIDRs are accepted', () => {
  for (const text of ['proxy', '10.0.0.0/33', '10.0.0', '10.0.0.1,', '::1/129', '*', '0x7f.1'])
    assert.throws(() => addressOf(text, '127.0.0.1'), SettingsError, text)
})

test('a proxy may be trusted by an IPv4 address within an IPv6 one', () => {
  assert.equal(addressOf('::ffff:10.0.0.1', '10.0.0.1', '203.0.113.9'), '203.0.113.9')
  assert.equal(addressOf('::ffff:10.0.0.1', '10.0.0.2', '203.0.113.9'), '10.0.0.2')
})

test('the origin is the forwarded scheme with the host, from trusted proxies alone', () => {
  const https = { 'x-forwarded-proto': 'https' }
  assert.equal(originOf(https), 'https://git.example.com')
  assert.equal(originOf({ 'x-forwarded-proto': ' HTTP ' }), 'http://git.example.com')
  assert.equal(originOf({ ...https, host: 'Git.Example.com:443' }), 'https://git.example.com')
  assert.equal(originOf({ ...https, host: '[2a00::5]:8443' }), 'https://[2a00::5]:8443')
  assert.equal(originOf({}), undefined)
  assert.equal(originOf(https, '192.0.2.1'), undefined)
  assert.equal(originOf(https, '127.0.0.1', ''), undefined)
  // The peer counts, not what it says of itself.
  assert.equal(originOf({ ...https, 'x-forwarded-for': '10.0.0.1' }, '192.0.2.1'), undefined)
})

test('where proxies append to X-Forwarded-Proto, the entry of the one that the client called counts', () => {
  for (const [schemes, forwarded, scheme] of [
    ['https, http', '203.0.113.9, 10.0.0.1', 'https'],
    ['http, https', '203.0.113.9, 10.0.0.1', 'http'],
    // A client may begin both lists with what it likes.
    ['http, https, http', '10.0.0.9, 203.0.113.9, 10.0.0.1', 'https'],
    ['https, http', '203.0.113.9', 'http'],
    ['https, http', undefined, 'http'],
    ['https', '203.0.113.9, 10.0.0.1', 'https'],
    ['https, http', '203.0.113.9, 10.0.0.1, 10.0.0.2', undefined],
    ['https, x', '203.0.113.9', undefined],
  ] as const) {
    const lists = {
      'x-forwarded-proto': schemes,
      ...(forwarded && { 'x-forwarded-for': forwarded }),
    }
    assert.equal(
      originOf(lists),
      scheme && `${scheme}://git.example.com`,
      `${schemes}: ${forwarded}`,
    )
  }
})

test('a scheme or host that is not one gives no origin', () => {
  for (const scheme of ['', 'ftp', 'javascript', 'https:', 'https://evil.example/', ','])
    assert.equal(originOf({ 'x-forwarded-proto': scheme }), undefined, scheme)
  for (const host of [
    '',
    'a/b',
    'a@b',
    'a b',
    'a"b',
    'a?b',
    'a#b',
    'a\\b',
    'a:b',
    'a:1:2',
    'a:65536',
    '[::1',
    '[x]',
    '%31',
    'a,b',
    'a.'.repeat(200),
  ])
    assert.equal(originOf({ host, 'x-forwarded-proto': 'https' }), undefined, host)
})
