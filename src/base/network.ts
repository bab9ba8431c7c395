import { isIPv6 } from 'node:net'

const groups = 8
const prefixGroups = 4

/** Returns the network that usually belongs to one customer: an IPv4 address, or the first 64 bits of an IPv6 one. */
export function networkOf(address: string): string {
  const plain = address.replace(/^::ffff:(?=\d+\.)/, '')
  if (!isIPv6(plain)) return plain
  const [head = '', tail] = (plain.split('%')[0] ?? '').split('::')
  const first = head === '' ? [] : head.split(':')
  const last = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = Array(Math.max(0, groups - first.length - last.length)).fill('0')
  return [...first, ...zeros, ...last].slice(0, prefixGroups).join(':')
}

/** Replaces a wildcard address in a URL, which clients cannot connect to, by the loopback address. */
export function reachable(url: string): string {
  return url.replace(/(?<=[/@])0\.0\.0\.0:/, '127.0.0.1:').replace(/(?<=[/@])\[::\]:/, '[::1]:')
}

/** Whether a URL is encrypted, or of this machine. */
export function isSecure({ protocol, hostname }: URL): boolean {
  const isLocal = /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname)
  return protocol === 'https:' || (protocol === 'http:' && isLocal)
}
