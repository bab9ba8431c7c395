import ipaddr from 'ipaddr.js'

/** An IP address, as ipaddr.js holds it. */
export type Ip = ipaddr.IPv4 | ipaddr.IPv6

/** A range of IP addresses: its first one, and how many bits all of them share. */
export type IpRange = [Ip, number]

export type AddressClass = 'external' | keyof typeof special

/**
 * What is special about addresses, by the registries of IANA for IPv4 and IPv6
 * (https://www.iana.org/assignments/iana-ipv4-special-registry and -ipv6-), those for multicast, and RFC 4291. Their
 * smaller blocks that are reachable from everywhere, such as relays and sinks, are reserved here too: no
 * repository and no webhook is there. The first class that has an address counts.
 */
const special = {
  loopback: ['127.0.0.0/8', '::1/128'],
  // Metadata services of clouds, which hand out credentials: AWS, Azure, Google, Alibaba,
  // Scaleway. All of them answer at 169.254.169.254, too.
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

// All else in IPv6 is unassigned, deprecated or special.
const assigned: IpRange = ipaddr.parseCIDR('2000::/3')

/** The class of an address itself; `addressesIn` finds IPv4 addresses embedded in it. */
export function classOf(ip: Ip): AddressClass {
  const isAssigned = ip.kind() === 'ipv4' || isIn(ip, assigned)
  // The names of the ranges are the keys of the table.
  return ipaddr.subnetMatch(ip, ranges, isAssigned ? 'external' : 'reserved') as AddressClass
}

/** Whether an address is in a range; one of IPv4 never is in one of IPv6. */
export function isIn(ip: Ip, [first, bits]: IpRange): boolean {
  return ip.kind() === first.kind() && ip.match(first, bits)
}
