import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { readWebhookAddress } from './webhook-address.ts'

function receiverOf(text: string): string {
  const address = readWebhookAddress(text)
  return 'receiver' in address ? address.receiver : `fault: ${address.fault}`
}

test('addresses of one host and port are one receiver, however they are written', () => {
  const receivers: Record<string, string[]> = {
    'hooks.example:443': [
      'https://hooks.example',
      'https://hooks.example/',
      'HTTPS://HOOKS.Example:443/a?b=c',
      'https://hooks.example./x',
      'https://%68ooks.example/',
    ],
    'hooks.example:80': ['http://hooks.example', 'http://hooks.example:/'],
    'hooks.example:8080': ['http://hooks.example:8080/a@b', 'https://hooks.example:08080'],
    '127.0.0.1:80': ['http://127.0.0.1', 'http://127.1', 'http://0x7f000001/', 'http://2130706433'],
    '[::1]:80': ['http://[::1]/', 'http://[0:0:0:0:0:0:0:1]'],
    'xn--bcher-kva.example:443': ['https://bücher.example/', 'https://xn--bcher-kva.example'],
  }
  for (const [receiver, texts] of Object.entries(receivers)) {
    for (const text of texts) assert.equal(receiverOf(text), receiver, text)
  }
})

test('an ambiguous URL is rejected with the reason', () => {
  const faults: [RegExp, string[]][] = [
    [
      /an absolute http or https URL/,
      [
        ...['', 'hooks.example', '/hook', '//hooks.example', 'http:', 'http://', 'http:///x'],
        ...[
          'http:hooks.example',
          'http:/hooks.example',
          'ftp://hooks.example',
          'file:///etc/passwd',
        ],
        ...[
          'http://a b/',
          ' http://hooks.example',
          'http://hooks.example\n',
          'http://hooks\t.example',
        ],
        ...['http:\\\\hooks.example', 'http://hooks.example\\@evil', 'http://a..b/', 'http://[::1'],
        ...['http://hooks.example:0', 'http://hooks.example:65536', 'http://hooks.example:x'],
        ...[
          'http://?x',
          'http://-/\u200b',
          'http://hooks.example/\ud800',
          'http://[fe80::1%25eth0]/',
        ],
        `http://hooks.example/${'x'.repeat(1980)}`,
      ],
    ],
    [
      /user or password; .* `secret`/,
      ['http://me:hush@hooks.example', 'https://me@x', 'http://@x/'],
    ],
    [/a fragment/, ['http://hooks.example/#', 'http://hooks.example/a#b', 'http://x?a#b']],
  ]
  for (const [fault, texts] of faults)
    for (const text of texts) assert.match(receiverOf(text), fault, text)
  assert.equal(receiverOf(`http://x/${'y'.repeat(1991)}`), 'x:80')
})

test('every accepted URL means the same host to all parsers', () => {
  const part = fc.constantFrom(
    'a',
    'B.',
    '@',
    ':',
    '/',
    '\\',
    '#',
    '?',
    '%40',
    '127.1',
    '[::1]',
    '80',
    ' ',
  )
  fc.assert(
    fc.property(fc.array(part, { maxLength: 8 }), (parts) => {
      const text = `http://${parts.join('')}`
      const address = readWebhookAddress(text)
      if ('fault' in address) return
      const url = new URL(text)
      assert.equal(address.host, url.hostname)
      assert.deepEqual([url.username, url.password, url.hash], ['', '', ''])
      assert.equal(address.receiver.split(':').at(-1), url.port || '80')
    }),
    { numRuns: 2000 },
  )
})
