import assert from 'node:assert/strict'
import { test } from 'node:test'
import ipaddr from 'ipaddr.js'
import { type AddressClass, classOf } from './address-class.ts'

// The registries of 2025-10, every block; nested ones of the same class are covered by the outer one.
const registry: [block: string, AddressClass][] = [
  ['0.0.0.0/8', 'unspecified'],
  ['0.0.0.0/32', 'unspecified'],
  ['10.0.0.0/8', 'private'],
  ['100.64.0.0/10', 'private'],
  ['127.0.0.0/8', 'loopback'],
  ['169.254.0.0/16', 'linkLocal'],
  ['172.16.0.0/12', 'private'],
  ['192.0.0.0/24', 'reserved'],
  ['192.0.0.0/29', 'reserved'],
  ['192.0.0.8/32', 'reserved'],
  ['192.0.0.9/32', 'reserved'],
  ['192.0.0.10/32', 'reserved'],
  ['192.0.0.170/31', 'reserved'],
  ['192.0.2.0/24', 'documentation'],
  ['192.31.196.0/24', 'reserved'],
  ['192.52.193.0/24', 'reserved'],
  ['192.88.99.0/24', 'reserved'],
  ['192.168.0.0/16', 'private'],
  ['192.175.48.0/24', 'reserved'],
  ['198.18.0.0/15', 'benchmarking'],
  ['198.51.100.0/24', 'documentation'],
  ['203.0.113.0/24', 'documentation'],
  ['224.0.0.0/4', 'multicast'],
  ['240.0.0.0/5', 'reserved'],
  ['255.255.255.255/32', 'broadcast'],
  ['::1/128', 'loopback'],
  ['::/128', 'unspecified'],
  ['100::/64', 'reserved'],
  ['100:0:0:1::/64', 'reserved'],
  ['2001:1::1/128', 'reserved'],
  ['2001:1::2/128', 'reserved'],
  ['2001:1::3/128', 'reserved'],
  ['2001:2::/48', 'benchmarking'],
  ['2001:3::/32', 'reserved'],
  ['2001:4:112::/48', 'reserved'],
  ['2001:10::/28', 'reserved'],
  ['2001:20::/28', 'reserved'],
  ['2001:30::/28', 'reserved'],
  ['2001:40::/26', 'reserved'],
  ['2001:80::/25', 'reserved'],
  ['2001:100::/24', 'reserved'],
  ['2001:db8::/32', 'documentation'],
  ['2620:4f:8000::/48', 'reserved'],
  ['3fff::/20', 'documentation'],
  ['5f00::/16', 'reserved'],
  ['fc00::/7', 'private'],
  ['fe80::/10', 'linkLocal'],
  ['ff00::/8', 'multicast'],
]

// Unassigned and deprecated blocks of IANA: https://www.iana.org/assignments/ipv6-address-space
const unassigned = [
  ...['0:1::/32', '200::/7', '400::/6', '800::/5', '1000::/4', '4000::/3', '6000::/3', '8000::/3'],
  ...['a000::/3', 'c000::/3', 'e000::/4', 'f000::/5', 'f800::/6', 'fe00::/9', 'fec0::/10'],
]

test('every block of the special-purpose registries has its class, from the first address to the last', () => {
  const all = [...registry, ...unassigned.map((block) => [block, 'reserved'] as const)]
  for (const [block, expected] of all) {
    const [first, last] = edgesOf(block)
    assert.equal(classOf(first), expected, `the first of ${block}`)
    assert.equal(classOf(last), expected, `the last of ${block}`)
  }
})

test('addresses next to the special blocks are external', () => {
  const neighbours = [
    ...['1.0.0.0', '9.255.255.255', '11.0.0.0', '100.63.255.255', '100.128.0.0', '126.255.255.255'],
    ...['128.0.0.0', '169.253.255.255', '169.255.0.0', '172.15.255.255', '172.32.0.0', '192.0.1.0'],
    ...[
      '192.167.255.255',
      '192.169.0.0',
      '198.17.255.255',
      '198.20.0.0',
      '223.255.255.255',
      '8.8.8.8',
    ],
    ...[
      '2000::',
      '2001:200::',
      '2001:db7:ffff::',
      '2001:db9::',
      '2003::',
      '3ffe:ffff::',
      '3fff:1000::',
    ],
    ...['2606:4700::1111', '168.63.129.15', '100.128.100.200'],
  ]
  for (const address of neighbours)
    assert.equal(classOf(ipaddr.parse(address)), 'external', address)
})

test('the metadata services of clouds are neither private nor external', () => {
  const services = [
    '100.100.100.200',
    '168.63.129.16',
    'fd00:ec2::254',
    'fd20:ce::254',
    'fd00:42::42',
  ]
  for (const address of services) assert.equal(classOf(ipaddr.parse(address)), 'metadata', address)
  assert.equal(classOf(ipaddr.parse('169.254.169.254')), 'linkLocal')
})

function edgesOf(block: string): [ipaddr.IPv4 | ipaddr.IPv6, ipaddr.IPv4 | ipaddr.IPv6] {
  const { IPv4, IPv6 } = ipaddr
  const kind = block.includes(':') ? IPv6 : IPv4
  return [kind.networkAddressFromCIDR(block), kind.broadcastAddressFromCIDR(block)]
}
