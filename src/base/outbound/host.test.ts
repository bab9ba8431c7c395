import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { toHost } from './host.ts'

test('hosts are parsed as in browsers', () => {
  const hosts: [text: string, meaning: string][] = [
    ['Git.Example.COM', 'git.example.com'],
    ['git.example.com.', 'git.example.com'],
    ['localhost.', 'localhost'],
    ['%6cocalhost', 'localhost'],
    ['lo\u00adcalhost', 'localhost'],
    ['ｌｏｃａｌｈｏｓｔ', 'localhost'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['my_host', 'my_host'],
    ['127.0.0.1', '127.0.0.1'],
    ['127.0.0.1.', '127.0.0.1'],
    ['127.1', '127.0.0.1'],
    ['127.0.1', '127.0.0.1'],
    ['2130706433', '127.0.0.1'],
    ['017700000001', '127.0.0.1'],
    ['0177.0.0.1', '127.0.0.1'],
    ['0x7f.1', '127.0.0.1'],
    ['0X7F000001', '127.0.0.1'],
    ['127。0。0。1', '127.0.0.1'],
    ['１２７．０．０．１', '127.0.0.1'],
    ['①②⑦.0.0.1', '127.0.0.1'],
    ['%31%32%37.0.0.1', '127.0.0.1'],
    ['127%2e0%2E0%2e1', '127.0.0.1'],
    ['0', '0.0.0.0'],
    ['[::1]', '::1'],
    ['::1', '::1'],
    ['[0:0:0:0:0:0:0:1]', '::1'],
    ['[2001:DB8::0001]', '2001:db8::1'],
    ['::ffff:127.0.0.1', '::ffff:7f00:1'],
  ]
  for (const [text, meaning] of hosts) assert.equal(meaningOf(text), meaning, text)
})

test('an invalid host is rejected', () => {
  const texts = [
    ...[
      '',
      '.',
      '..',
      'a..b',
      '.a',
      'a..',
      '-a.example',
      'a.-b',
      'a b',
      ' a',
      'a\n',
      'a\tb',
      'a\0b',
    ],
    ...[
      'a/b',
      'a\\b',
      'a?b',
      'a#b',
      'a@b',
      'a:80',
      'a:',
      ':',
      '*.a',
      'a,b',
      'a;b',
      "a'b",
      'a%',
      'a%00b',
    ],
    ...['a%2fb', 'a%40b', 'a%3a80', '%2531.0.0.1', '256.1.1.1', '1.2.3.4.5', 'a.0x7f', '1.2.3.08'],
    ...[
      '[',
      '[]',
      '[a]',
      '[127.0.0.1]',
      '[::1',
      '::1]',
      '[[::1]]',
      '[::1]:80',
      '[::1]x',
      '[%3a%3a1]',
    ],
    ...[
      'fe80::1%eth0',
      '[fe80::1%25eth0]',
      '::1%',
      '：：１',
      '1::2::3',
      ':::',
      '::12345',
      '::1.2.3',
    ],
    ...['x'.repeat(64), `${'x.'.repeat(127)}x`, 'http://a', '\ud800', '\u200b'],
  ]
  for (const text of texts) assert.equal(toHost(text), undefined, JSON.stringify(text))
})

test('every spelling of an IPv4 address is normalized', () => {
  const octet = fc.integer({ min: 0, max: 255 })
  fc.assert(
    fc.property(
      fc.tuple(octet, octet, octet, octet),
      fc.infiniteStream(fc.nat(5)),
      (bytes, dice) => {
        const [a, b, c, d] = bytes
        const groupings = [
          [a, b, c, d],
          [a, b, c * 256 + d],
          [a, (b * 256 + c) * 256 + d],
        ]
        for (const numbers of [...groupings, [((a * 256 + b) * 256 + c) * 256 + d]]) {
          const text = numbers.map((number) => spell(number, dice.next().value)).join('.')
          const dots = ['.', '。', '．', '｡', '%2e', '.'][dice.next().value] ?? '.'
          const spelled = text.replaceAll('.', dots) + ['', '.'][dice.next().value % 2]
          assert.equal(meaningOf(spelled), bytes.join('.'), spelled)
        }
      },
    ),
  )
})

test('for any text, parsing is idempotent', () => {
  const piece = fc.constantFrom(
    ...'aZ09.-_:[]%/@\\ fx。１é\u00ad'.split(''),
    '%2e',
    '::',
    '127.',
    'xn--',
  )
  const text = fc.oneof(
    fc.array(piece, { maxLength: 12 }).map((all) => all.join('')),
    fc.string(),
  )
  fc.assert(
    fc.property(text, (host) => {
      const meaning = meaningOf(host)
      if (meaning === undefined) return
      assert.equal(meaningOf(meaning), meaning)
      assert.match(meaning, /^[a-z0-9_.:-]+$/)
    }),
    { numRuns: 2000 },
  )
})

function meaningOf(text: string): string | undefined {
  const host = toHost(text)
  return host?.kind === 'name' ? host.name : host?.address
}

function spell(number: number, die: number): string {
  const hex = number.toString(16)
  const spellings = [
    ...[String(number), `0${number.toString(8)}`, `000${number.toString(8)}`],
    ...[`0x${hex}`, `0X${hex.toUpperCase()}`, `0x000${hex}`],
  ]
  return spellings[die] ?? String(number)
}
