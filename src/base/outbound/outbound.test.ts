import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import ipaddr from 'ipaddr.js'
import { createFairLimiter } from '../concurrency/fair-limiter.ts'
import { Problem, type ProblemCode } from '../problem.ts'
import { classOf } from './address-class.ts'
import { parseAllowed } from './allowed-ranges.ts'
import { createLookupLimiter } from './name-lookups.ts'
import { createOutbound, type Outbound } from './outbound.ts'

type Answers = Record<string, string[]>

/** An outbound policy, and the names that it has asked for. */
function open(allow: string, answers: Answers = {}): { outbound: Outbound; asked: string[] } {
  const allowed = parseAllowed(allow)
  assert.ok(allowed, allow)
  const asked: string[] = []
  const lookup = async (name: string) => {
    asked.push(name)
    const found = answers[name]
    if (!found)
      throw Object.assign(new Error(`getaddrinfo ENOTFOUND ${name}`), { code: 'ENOTFOUND' })
    return found.map((address) => ({ address }))
  }
  return { outbound: createOutbound({ allow: allowed, lookup }), asked }
}

async function refusal(attempt: Promise<unknown>, code: ProblemCode): Promise<string> {
  const error = await attempt.then(
    (found) => assert.fail(`allowed: ${found}`),
    (fault) => fault,
  )
  assert.ok(error instanceof Problem, String(error))
  assert.equal(error.code, code)
  assert.match(error.message, /^[^\n]*\.$/)
  return error.message
}

const isAllowed = (allow: string, host: string) =>
  open(allow)
    .outbound.resolve(host)
    .then(
      () => true,
      (error) =>
        error instanceof Problem && error.code === 'outbound_forbidden'
          ? false
          : assert.fail(error),
    )

test('a class allows its addresses and no others', async () => {
  const classes: [address: string, word: string | undefined][] = [
    ['8.8.8.8', 'external'],
    ['2606:4700::1111', 'external'],
    ['10.1.2.3', 'private'],
    ['100.64.0.1', 'private'],
    ['172.31.255.255', 'private'],
    ['192.168.0.1', 'private'],
    ['fd12::1', 'private'],
    ['127.0.0.1', 'loopback'],
    ['127.255.255.255', 'loopback'],
    ['::1', 'loopback'],
    ['169.254.169.254', undefined],
    ['fe80::1', undefined],
    ['fd00:ec2::254', undefined],
    ['100.100.100.200', undefined],
    ['0.0.0.0', undefined],
    ['0.1.2.3', undefined],
    ['::', undefined],
    ['224.0.0.1', undefined],
    ['255.255.255.255', undefined],
    ['240.0.0.1', undefined],
    ['192.0.2.1', undefined],
    ['198.18.0.1', undefined],
    ['ff02::1', undefined],
    ['fec0::1', undefined],
    ['4000::1', undefined],
  ]
  for (const [address, allowedBy] of classes) {
    for (const word of ['external', 'private', 'loopback']) {
      assert.equal(await isAllowed(word, address), word === allowedBy, `${word} ${address}`)
    }
    const all = 'external,private,loopback'
    assert.equal(await isAllowed(all, address), allowedBy !== undefined, `${all} ${address}`)
    assert.equal(await isAllowed('none', address), false, address)
    // Any class can be listed.
    assert.equal(await isAllowed(address, address), true, address)
  }
})

test('a range allows its addresses, special ones included', async () => {
  assert.equal(await isAllowed('169.254.0.0/16', '169.254.169.254'), true)
  assert.equal(await isAllowed('169.254.0.0/17', '169.254.169.254'), false)
  assert.equal(await isAllowed('10.0.0.0/30', '10.0.0.3'), true)
  assert.equal(await isAllowed('10.0.0.0/30', '10.0.0.4'), false)
  assert.equal(await isAllowed('fe80::/10', 'febf::1'), true)
  assert.equal(await isAllowed('0.0.0.0/0', '127.0.0.1'), true)
  assert.equal(await isAllowed('0.0.0.0/0', '::1'), false)
  assert.equal(await isAllowed('::/0', '::1'), true)
  assert.equal(await isAllowed('::/0', '127.0.0.1'), false)
})

test('an address is normalized without a name lookup', async () => {
  const { outbound, asked } = open('external,loopback,10.0.0.0/8')
  const spellings: [text: string, address: string][] = [
    ['2130706433', '127.0.0.1'],
    ['127。0。0。1', '127.0.0.1'],
    ['0x7f.1.', '127.0.0.1'],
    ['[::1]', '::1'],
    ['[::ffff:10.0.0.1]', '10.0.0.1'],
    ['[2606:4700:0::0001]', '2606:4700::1'],
  ]
  for (const [text, address] of spellings) assert.deepEqual(await outbound.resolve(text), [address])
  assert.deepEqual(asked, [])
})

test('an address is checked with every IPv4 address that it embeds', async () => {
  // Each form with 127.0.0.1 in it, and the same with 8.8.8.8.
  const forms: [forbidden: string, allowed: string][] = [
    ['::ffff:127.0.0.1', '::ffff:8.8.8.8'],
    ['::127.0.0.1', '::8.8.8.8'],
    ['::ffff:0:127.0.0.1', '::ffff:0:8.8.8.8'],
    ['64:ff9b::127.0.0.1', '64:ff9b::8.8.8.8'],
    ['64:ff9b:1::127.0.0.1', '64:ff9b:1::8.8.8.8'],
    ['64:ff9b:1::', '64:ff9b:1::8.8.8.8'],
    ['64:ff9b:1:7f00:0:100:808:808', '64:ff9b:1:808:8:800:808:808'],
    ['64:ff9b:1:7f:0:1:808:808', '64:ff9b:1:8:8:808:808:808'],
    ['64:ff9b:1:0:7f:0:108:808', '64:ff9b:1:0:8:808:808:808'],
    ['64:ff9b:1:7f00:0:100::', '64:ff9b:1:808:8:800::'],
    ['64:ff9b:1:7f:0:1::', '64:ff9b:1:8:8:808::'],
    ['64:ff9b:1:0:7f:0:100:0', '64:ff9b:1:0:8:808:800:0'],
    ['2002:7f00:1::', '2002:808:808::'],
    ['2002:808:808::5efe:127.0.0.1', '2002:808:808::5efe:8.8.8.8'],
    ['2001::808:808:0:0:80ff:fffe', '2001:0:808:808::f7f7:f7f7'],
    ['2001:0:7f00:1::f7f7:f7f7', '2001:0:808:808::f7f7:f7f7'],
    ['2606:4700::5efe:127.0.0.1', '2606:4700::5efe:8.8.8.8'],
    ['2606:4700::200:5efe:127.0.0.1', '2606:4700::200:5efe:8.8.8.8'],
    ['fe80::5efe:8.8.8.8', '2606:4700::300:5efe:8.8.8.8'],
  ]
  for (const [forbidden, allowed] of forms) {
    assert.equal(await isAllowed('external', forbidden), false, forbidden)
    assert.equal(await isAllowed('::/0', forbidden), false, forbidden)
    assert.equal(await isAllowed('external', allowed), true, allowed)
  }
})

test('no forbidden IPv4 address is allowed inside an IPv6 address', async () => {
  const byte = fc.integer({ min: 0, max: 255 })
  const special = fc.constantFrom(
    ...['127.0.0.1', '10.0.0.1', '169.254.169.254', '0.0.0.0', '192.168.1.1', '255.255.255.255'],
    ...['100.100.100.200', '224.0.0.1', '172.16.9.9', '198.51.100.1'],
  )
  const ipv4 = fc.oneof(
    special.map((text) => ipaddr.IPv4.parse(text).octets),
    fc
      .tuple(byte, byte, byte, byte)
      .filter((octets) => classOf(new ipaddr.IPv4(octets)) !== 'external'),
  )
  const { outbound } = open('external,::/0')
  await fc.assert(
    fc.asyncProperty(
      ipv4,
      fc.tuple(byte, byte, byte, byte),
      async ([a = 0, b = 0, c = 0, d = 0], rest) => {
        const low = hex(a, b, c, d)
        const [e, f, g, h] = rest
        const inverted = hex(a ^ 255, b ^ 255, c ^ 255, d ^ 255)
        const [other, more] = [hex(e, f, g, h), hex(h, g, f, e)]
        const forms = [
          ...[
            `::ffff:${low}`,
            `::ffff:0:${low}`,
            `64:ff9b::${low}`,
            `64:ff9b::${a}.${b}.${c}.${d}`,
          ],
          ...[`2002:${low}:${other}:${more}:0`],
          ...[`2001:0:${low}:${other}:${more}`, `2001:0:${other}:${more}:${inverted}`],
          ...[`2606:4700:${other}:0:5efe:${low}`, `2606:4700:${other}:200:5efe:${low}`],
        ]
        for (const form of forms.map((text) => ipaddr.IPv6.parse(text).toString())) {
          await refusal(outbound.resolve(form), 'outbound_forbidden')
        }
      },
    ),
  )
})

test('a name resolves to all its addresses in order, with one lookup', async () => {
  const answer = ['2606:4700::1111', '8.8.8.8', '::ffff:8.8.4.4']
  const { outbound, asked } = open('external', { 'git.example.com': answer })
  const expected = ['2606:4700::1111', '8.8.8.8', '8.8.4.4']
  assert.deepEqual(await outbound.resolve('GIT.example.com.'), expected)
  assert.deepEqual(asked, ['git.example.com'])
})

test('a name with very many addresses resolves to the first ones', async () => {
  const answer = Array.from({ length: 200 }, (_, last) => `8.8.8.${last}`)
  const { outbound } = open('external', { 'many.example': answer })
  assert.deepEqual(await outbound.resolve('many.example'), answer.slice(0, 16))
})

test('one forbidden address forbids the name, in any position', async () => {
  const mixed: Answers = {
    'first.example': ['127.0.0.1', '8.8.8.8'],
    'last.example': ['8.8.8.8', '2606:4700::1111', '10.0.0.1'],
    'inside.example': ['8.8.8.8', '64:ff9b::10.0.0.1', '8.8.4.4'],
    'zone.example': ['8.8.8.8', 'fe80::1%br-lan'],
    'many.example': [...Array(40).fill('8.8.8.8'), '10.0.0.1'],
  }
  const { outbound } = open('external', mixed)
  for (const name of Object.keys(mixed)) {
    await refusal(outbound.resolve(name), 'outbound_forbidden')
  }
})

test('a name that resolves differently the second time is connected to at its first addresses', async () => {
  const answers = [['8.8.8.8'], ['127.0.0.1']]
  let asked = 0
  const lookup = async () => (answers[asked++] ?? []).map((address) => ({ address }))
  const outbound = createOutbound({
    allow: { classes: ['external'], ranges: [], names: [] },
    lookup,
  })
  assert.deepEqual(await outbound.resolve('rebinding.example'), ['8.8.8.8'])
  assert.equal(asked, 1)
  await refusal(outbound.resolve('rebinding.example'), 'outbound_forbidden')
})

test('a listed name is allowed with any addresses, and only that exact name', async () => {
  const names = ['git.internal', 'sub.git.internal', 'internal', 'git.internal.example']
  const answers = Object.fromEntries(names.map((name) => [name, ['10.0.0.1', '169.254.169.254']]))
  const { outbound, asked } = open('Git.Internal.', answers)
  for (const spelling of ['git.internal', 'GIT.INTERNAL.', 'git%2einternal', 'git。internal']) {
    assert.deepEqual(await outbound.resolve(spelling), ['10.0.0.1', '169.254.169.254'], spelling)
  }
  for (const name of [...names.slice(1), '10.0.0.1']) {
    await refusal(outbound.resolve(name), 'outbound_forbidden')
  }
  assert.deepEqual(new Set(asked), new Set(['git.internal']), 'other names are not even asked for')
})

test('a rejection says what to do, and reveals no address', async () => {
  const { outbound } = open('external', {
    'db.internal': ['10.9.8.7'],
    'md.internal': ['169.254.9.9'],
  })
  assert.equal(
    await refusal(outbound.resolve('DB.internal.'), 'outbound_forbidden'),
    'The host "db.internal" has a private address, to which this server may not connect; ' +
      'its administrator can add "private" or "db.internal" to SVC_OUTBOUND_ALLOW.',
  )
  assert.equal(
    await refusal(outbound.resolve('md.internal'), 'outbound_forbidden'),
    'The host "md.internal" has a link-local address, to which this server may not connect; ' +
      'its administrator can add "md.internal" to SVC_OUTBOUND_ALLOW.',
  )
  const literal = await refusal(outbound.resolve('[2002:7f00:1::]'), 'outbound_forbidden')
  assert.match(
    literal,
    /^The host "2002:7f00:1::" has a loopback address, .* "loopback" or "127.0.0.1"/,
  )
  const none = await refusal(open('none').outbound.resolve('example.com'), 'outbound_forbidden')
  assert.match(none, /can add "example\.com" to SVC_OUTBOUND_ALLOW/)
})

test('the entry that a rejection suggests is accepted and sufficient', async () => {
  const answers = { 'db.internal': ['10.9.8.7', '64:ff9b::7f00:1'], 'md.internal': ['fe80::1'] }
  for (const host of [
    'db.internal',
    'md.internal',
    '0.0.0.0',
    'fe80::1',
    '::127.1.1.1',
    '224.0.0.1',
  ]) {
    const { outbound } = open('external', answers)
    const sentence = await refusal(outbound.resolve(host), 'outbound_forbidden')
    const [, entry = ''] = /"([^"]*)" to SVC_OUTBOUND_ALLOW/.exec(sentence) ?? []
    const { outbound: opened } = open(`external,${entry}`, answers)
    assert.ok((await opened.resolve(host)).length > 0, sentence)
  }
})

test('an unknown host and an invalid one have different errors', async () => {
  const { outbound } = open('external', { 'empty.example': [] })
  const rejectionOf = (host: string) => refusal(outbound.resolve(host), 'outbound_unresolved')
  assert.match(await rejectionOf('nowhere.example'), /^The host "nowhere.example" is unknown/)
  assert.match(await rejectionOf('empty.example'), /^The host "empty.example" has no address/)
  assert.match(await rejectionOf('fe80::1%eth0'), /^"fe80::1%eth0" is no host name or address/)
  assert.match(await rejectionOf('a b\n'), /^"a b\\n" is no host name or address/)
  assert.match(await rejectionOf('x'.repeat(9999)), /^"x{100}" is no host name or address/)
})

test('finished lookups admit others', async () => {
  const { outbound } = open('external', { 'a.example': ['8.8.8.8'] })
  for (let round = 0; round < 40; round += 1) {
    assert.deepEqual(await outbound.resolve('a.example'), ['8.8.8.8'])
    await refusal(outbound.resolve('nowhere.example'), 'outbound_unresolved')
  }
})

test('a resolver that fails or does not respond times out', async () => {
  const allow = { classes: ['external'], ranges: [], names: [] } as const
  const failing = createOutbound({
    allow,
    lookup: () => Promise.reject(Object.assign(new Error('EAI_AGAIN'), { code: 'EAI_AGAIN' })),
  })
  assert.match(
    await refusal(failing.resolve('a.example'), 'outbound_unresolved'),
    /try again later/,
  )

  const { promise: silence } = Promise.withResolvers<never>()
  let lookups = 0
  const lookup = () => {
    lookups += 1
    return silence
  }
  const limits = { overall: 8, perKey: 2, waiting: 4, waitMs: 20 }
  const silent = createOutbound({
    ...{ allow, lookup, lookupTimeoutMs: 1 },
    lookups: createFairLimiter(limits),
  })
  const all = Array.from({ length: 10 }, () =>
    refusal(silent.resolve('a.example'), 'outbound_unresolved'),
  )
  const sentences = await Promise.all(all)
  assert.match(sentences[0] ?? '', /did not respond in time for "a.example"/)
  assert.match(sentences.at(-1) ?? '', /Too many concurrent name lookups/)
  assert.equal(lookups, 2)
})

test('a user whose lookups are never answered holds up no other user', async () => {
  const asked: string[] = []
  const { promise: silence } = Promise.withResolvers<never>()
  const outbound = createOutbound({
    allow: { classes: ['external'], ranges: [], names: [] },
    async lookup(name) {
      asked.push(name)
      return name.startsWith('slow') ? silence : [{ address: '8.8.8.8' }]
    },
    lookups: createLookupLimiter(16, 20),
    lookupTimeoutMs: 1,
  })
  const slow = Array.from({ length: 100 }, (_, index) =>
    outbound.of('eve').resolve(`slow${index}.example`),
  )
  for (const lookup of slow) lookup.catch(() => {})
  // Lookups that were given up block threads all the same.
  await Promise.all(slow.slice(0, 2).map((lookup) => refusal(lookup, 'outbound_unresolved')))
  for (const key of ['ada', 'grace'])
    assert.deepEqual(await outbound.of(key).resolve('a.example'), ['8.8.8.8'])
  assert.deepEqual(asked, ['slow0.example', 'slow1.example', 'a.example', 'a.example'])
})

function hex(a: number, b: number, c: number, d: number): string {
  return `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`
}
