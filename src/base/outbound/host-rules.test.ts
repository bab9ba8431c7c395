import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  covers,
  formatRule,
  type HostRule,
  intersectRules,
  parseHostRule,
  toComparable,
} from './host-rules.ts'
import { addressesAllowed, listedHostsFault, parseListedHosts } from './listed-hosts.ts'
import { createOutbound } from './outbound.ts'

test('a rule is a name, an address, a pattern or all hosts, with the ports of the web by default', () => {
  const parsed: [text: string, pattern: string, ports: number[]][] = [
    ['Registry.NPMJS.org.', 'registry.npmjs.org', [80, 443]],
    ['*.npmjs.org', '*.npmjs.org', [80, 443]],
    ['*', '*', [80, 443]],
    ['*:8080', '*', [8080]],
    ['mirror:65535', 'mirror', [65_535]],
    ['10.0.0.1:22', '10.0.0.1', [22]],
    ['[::1]:8080', '::1', [8080]],
    ['2606:4700::0001', '2606:4700::1', [80, 443]],
    ['[::ffff:10.0.0.1]', '10.0.0.1', [80, 443]],
    ['0x7f.1', '127.0.0.1', [80, 443]],
  ]
  for (const [text, pattern, ports] of parsed) {
    assert.deepEqual(parseHostRule(text), { pattern, ports }, text)
  }
})

test('an invalid rule is named with its fault', () => {
  const faults: [text: string, fault: RegExp][] = [
    ['', /^an entry is empty$/],
    ['https://example.com', /^"https:\/\/example.com" is more than a host$/],
    ['10.0.0.0/8', /is more than a host$/],
    ['example.com:0', /has an invalid port$/],
    ['example.com:65536', /has an invalid port$/],
    ['example.com:*', /has an invalid port$/],
    ['ex*mple.com', /has a wildcard that is not the whole first label/],
    ['*.*.com', /has a wildcard that is not the whole first label/],
    ['*.10.0.0.1', /has a wildcard/],
    ['a b', /^"a b" is no host$/],
    ['user@example.com', /is no host$/],
  ]
  for (const [text, fault] of faults) assert.match(String(parseHostRule(text)), fault, text)
})

test('a rule covers its host in every spelling, and no other host or port', () => {
  const covered = (rule: string, host: string, port = 443) =>
    covers(ruleOf(rule), toComparable(host) ?? '', port)
  assert.ok(covered('npmjs.org', 'NPMJS.org.'))
  assert.ok(!covered('npmjs.org', 'registry.npmjs.org'))
  assert.ok(!covered('npmjs.org', 'evilnpmjs.org'))
  assert.ok(!covered('npmjs.org', 'npmjs.org', 22))
  assert.ok(covered('*.npmjs.org', 'a.b.npmjs.org', 80))
  assert.ok(!covered('*.npmjs.org', 'npmjs.org'))
  assert.ok(!covered('*.npmjs.org', 'evilnpmjs.org'))
  assert.ok(covered('*', '8.8.8.8'))
  assert.ok(!covered('*', '8.8.8.8', 8443))
  assert.ok(covered('127.0.0.1:1', '2130706433', 1))
  assert.ok(covered('127.0.0.1', '::ffff:7f00:1'))
})

test('the intersection of two lists is what both cover', () => {
  const intersect = (some: string, others: string) =>
    intersectRules(some.split(' ').map(ruleOf), others.split(' ').map(ruleOf)).map(formatRule)
  assert.deepEqual(intersect('a.b', '*'), ['a.b'])
  assert.deepEqual(intersect('*', 'a.b *.c'), ['a.b', '*.c'])
  assert.deepEqual(intersect('*.b a.x', '*.a.b a.b x.b:8080'), ['*.a.b', 'a.b'])
  assert.deepEqual(intersect('a.b:443', '*.b'), ['a.b:443'])
  assert.deepEqual(intersect('a.b:22 [::1]:80', '*'), ['[::1]:80'])
  assert.deepEqual(intersect('evila.b', '*.a.b'), [])
  assert.deepEqual(intersect('a.b a.b', '* *.b'), ['a.b'])
})

test('a list of hosts has words for inner addresses, and a listed name is no permission for them', async () => {
  const listed = parseListedHosts('*.example.com, mirror:8080, 10.0.0.5, Private')
  assert.ok(listed)
  assert.deepEqual(listed.classes, ['private'])
  assert.deepEqual(addressesAllowed(listed), {
    classes: ['external', 'private'],
    ranges: ['10.0.0.5/32'],
    names: [],
  })
  const answers: Record<string, string> = { mirror: '10.9.9.9', other: '10.0.0.5' }
  const lookup = async (name: string) => [{ address: answers[name] ?? '' }]
  const outboundOf = (text: string) => {
    const hosts = parseListedHosts(text)
    assert.ok(hosts, text)
    return createOutbound({ allow: addressesAllowed(hosts), lookup })
  }
  await assert.rejects(outboundOf('mirror').resolve('mirror'), /private address/)
  await assert.rejects(outboundOf('mirror,loopback').resolve('mirror'), /private address/)
  assert.deepEqual(await outboundOf('mirror,private').resolve('mirror'), ['10.9.9.9'])
  assert.deepEqual(await outboundOf('other,10.0.0.5').resolve('other'), ['10.0.0.5'])
})

test('an invalid list names its first fault', () => {
  assert.match(listedHostsFault('a.b,none') ?? '', /^"none" stands beside other entries$/)
  assert.match(listedHostsFault('a.b,,c') ?? '', /^an entry is empty$/)
  assert.match(listedHostsFault('a.b,http://c') ?? '', /^"http:\/\/c" is more than a host$/)
  assert.match(listedHostsFault(Array(1001).fill('a').join()) ?? '', /more than 1000 entries$/)
  assert.equal(parseListedHosts('a.b,none'), undefined)
})

function ruleOf(text: string): HostRule {
  const rule = parseHostRule(text)
  assert.ok(typeof rule !== 'string', String(rule))
  return rule
}
