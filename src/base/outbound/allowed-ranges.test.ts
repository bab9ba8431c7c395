import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { allowedFault, defaultAllowed, parseAllowed } from './allowed-ranges.ts'

test('a list contains classes, hosts, addresses and ranges, in any case and with spaces', () => {
  const text =
    ' External,private , Git.Example.com., localhost,10.0.0.0/8,192.168.1.7,[FD00::1],fd00::/8'
  assert.deepEqual(parseAllowed(text), {
    classes: ['external', 'private'],
    ranges: ['10.0.0.0/8', '192.168.1.7/32', 'fd00::1/128', 'fd00::/8'],
    names: ['git.example.com', 'localhost'],
  })
})

test('a range that also contains embedded IPv4 addresses is accepted', () => {
  const ranges = ['::/0', '2000::/3', '2001::/23', '64:ff9b::/32']
  assert.deepEqual(parseAllowed(ranges.join())?.ranges, ranges)
})

test('none allows nothing', () => {
  const nothing = { classes: [], ranges: [], names: [] }
  assert.deepEqual(parseAllowed('none'), nothing)
  assert.deepEqual(parseAllowed(' None '), nothing)
})

test('an invalid entry is named with its fault', () => {
  const faults: [text: string, fault: RegExp][] = [
    ['external,', /^an entry of its list is empty$/],
    [' ', /^an entry of its list is empty$/],
    ['none,external', /^"none" stands beside other entries$/],
    ['external,*.example.com', /^"\*\.example\.com" has a wildcard/],
    ['https://example.com', /^"https:\/\/example.com" is more than a host$/],
    ['example.com:443', /^"example.com:443" has a port/],
    ['10.0.0.1:22', /has a port/],
    ['[::1]:22', /has a port/],
    ['10.0.0.0/33', /has a prefix longer than 32 bits$/],
    ['fd00::/129', /has a prefix longer than 128 bits$/],
    ['10.0.0.1/8', /^"10.0.0.1\/8" names a single address of the range 10.0.0.0\/8$/],
    ['fd00::1/8', /names a single address of the range fd00::\/8$/],
    ['10.0.0/8', /is no CIDR$/],
    ['010.0.0.0/8', /is no CIDR$/],
    ['0x0a000000/8', /is no CIDR$/],
    ['10.0.0.0/', /is no CIDR$/],
    ['10.0.0.0/-1', /is no CIDR$/],
    ['10.0.0.0/255.0.0.0', /is no CIDR$/],
    ['fe80::%eth0/10', /is no CIDR$/],
    ['example.com/8', /is no CIDR$/],
    ['010.0.0.1', /^"010.0.0.1" is an unusual way to write 8.0.0.1$/],
    ['10.1', /is an unusual way to write 10.0.0.1$/],
    ['fe80::1%eth0', /is no host, address or CIDR$/],
    ['exte rnal', /is no host, address or CIDR$/],
    ['-x', /is no host, address or CIDR$/],
    ['::ffff:10.0.0.1', /only stands for IPv4 addresses/],
    ['::10.0.0.1', /only stands for IPv4 addresses/],
    ['64:ff9b::/96', /only stands for IPv4 addresses/],
    ['2002:a00::/24', /only stands for IPv4 addresses/],
  ]
  for (const [text, fault] of faults) {
    assert.equal(parseAllowed(text), undefined, text)
    assert.match(allowedFault(text) ?? '', fault, text)
  }
})

test('any text is either accepted or has a one-line fault', () => {
  const piece = fc.constantFrom(
    ...'a09.:/[]%*, \n-'.split(''),
    'none',
    'external',
    '10.0.0.0',
    '::',
    '/8',
  )
  const text = fc.oneof(
    fc.array(piece, { maxLength: 8 }).map((all) => all.join('')),
    fc.string(),
  )
  fc.assert(
    fc.property(text, (list) => {
      const fault = allowedFault(list)
      assert.equal(parseAllowed(list) === undefined, fault !== undefined)
      assert.doesNotMatch(fault ?? '', /\n/)
    }),
    { numRuns: 2000 },
  )
})

test('by default this machine is allowed only while the service listens on loopback alone', () => {
  const listening: [host: string, sshHost: string, sshPort: number | 'off', loopback: boolean][] = [
    ['127.0.0.1', '127.0.0.1', 2222, true],
    ['localhost', '::1', 2222, true],
    ['127.8.8.8', 'LOCALHOST.', 2222, true],
    ['::ffff:127.0.0.1', '127.1', 2222, true],
    ['127.0.0.1', '0.0.0.0', 'off', true],
    ['127.0.0.1', '0.0.0.0', 2222, false],
    ['0.0.0.0', '127.0.0.1', 2222, false],
    ['::', '127.0.0.1', 'off', false],
    ['10.0.0.1', '127.0.0.1', 'off', false],
    ['git.example.com', '127.0.0.1', 'off', false],
    ['localhost.example.com', '127.0.0.1', 'off', false],
  ]
  for (const [host, sshHost, sshPort, loopback] of listening) {
    const classes = loopback ? ['external', 'loopback'] : ['external']
    const allowed = defaultAllowed({ host, sshHost, sshPort, baseUrl: undefined })
    assert.deepEqual(allowed, { classes, ranges: [], names: [] }, `${host} ${sshHost} ${sshPort}`)
  }
})

test('a public address implies a proxy', () => {
  const classesWith = (baseUrl: string) =>
    defaultAllowed({ host: '127.0.0.1', sshHost: '::1', sshPort: 2222, baseUrl }).classes
  assert.deepEqual(classesWith('https://git.example.com'), ['external'])
  assert.deepEqual(classesWith('http://10.0.0.1:8080'), ['external'])
  assert.deepEqual(classesWith('http://localhost:8080'), ['external', 'loopback'])
  assert.deepEqual(classesWith('http://[::1]:8080'), ['external', 'loopback'])
})
