import ipaddr from 'ipaddr.js'

/** An IP address of ipaddr.js. */
export type Ip = ipaddr.IPv4 | ipaddr.IPv6

/** A range of IP addresses: the first one, and the prefix length. */
export type IpRange = [Ip, number]

export type AddressClass = 'external' | keyof typeof special

/**
 * The special address ranges of IANA's registries for IPv4 and IPv6
 * (https://www.iana.org/assignments/iana-ipv4-special-registry and -ipv6-) and for multicast, and of RFC 4291. Globally
 * reachable blocks within them, such as relays and sinks, also count as reserved. The first matching class applies.
 */
const special = {
  loopback: ['127.0.0.0/8', '::1/128'],
  // Metadata services of clouds, which issue credentials: AWS, Azure, Google, Alibaba, Scaleway. All of them also use
  // 169.254.169.254.
  metadata: [
    'fd00:ec2::/32',
    '168.63.129.16/32',
    'fd20:ce::254/128',
    '100.100.100.200/32',
    'fd00:42::42/128',
  ],
  private: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', 'fc00::/7'],
  linkLocal: ['169.254.0.0/16', 'fe80::/10'],
  unspecified: ['0.0.0.0/8', '::/128'],
  broadcast: ['255.255.255.255/32'],
  multicast: ['224.0.0.0/4', 'ff00::/8'],
  documentation: [
    '192.0.2.0/24',
    '198.51.100.0/24',
    '203.0.113.0/24',
    '2001:db8::/32',
    '3fff::/20',
  ],
  benchmarking: ['198.18.0.0/15', '2001:2::/48'],
  reserved: [
    '192.0.0.0/24',
    '192.31.196.0/24',
    '192.52.193.0/24',
    '192.88.99.0/24',
    '192.175.48.0/24',
    '240.0.0.0/4',
    '2001::/23',
    '2620:4f:8000::/48',
  ],
} as const

const ranges = Object.fromEntries(
  Object.entries(special).map(([name, texts]) => [
    name,
    texts.map((text): IpRange => ipaddr.parseCIDR(text)),
  ]),
)

// The rest of IPv6 is unassigned, deprecated or special.
const assigned: IpRange = ipaddr.parseCIDR('2000::/3')

/** Returns the class of an address; `addressesIn` finds IPv4 addresses embedded in it. */
export function classOf(ip: Ip): AddressClass {
  const isAssigned = ip.kind() === 'ipv4' || isIn(ip, assigned)
  // The keys of the table are the classes.
  return ipaddr.subnetMatch(ip, ranges, isAssigned ? 'external' : 'reserved') as AddressClass
}

/** Whether an address is in a range of the same IP version. */
export function isIn(ip: Ip, [first, bits]: IpRange): boolean {
  return ip.kind() === first.kind() && ip.match(first, bits)
}
