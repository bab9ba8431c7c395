import ipaddr from 'ipaddr.js'
import type { Allowed } from './allowed-ranges.ts'
import { addressOf, type HostRule, parseHostRule } from './host-rules.ts'

/** Hosts that an administrator lists, and the inner addresses that names among them may have. */
export type ListedHosts = {
  rules: readonly HostRule[]
  classes: readonly InnerWord[]
}

const words = ['private', 'loopback'] as const
type InnerWord = (typeof words)[number]

export const listedHostsForm =
  'hosts, patterns such as *.example.com, or * for every host, each with an optional :port (without one 80 and 443), and the words private and loopback for hosts with such addresses, separated by commas; or none'

const maxEntries = 1000

/** Parses a list of hosts; undefined if an entry is invalid. */
export function parseListedHosts(text: string): ListedHosts | undefined {
  const entries = parseEntries(text)
  if (entries.some((entry) => 'fault' in entry)) return undefined
  return {
    rules: entries.flatMap((entry) => ('rule' in entry ? [entry.rule] : [])),
    classes: entries.flatMap((entry) => ('word' in entry ? [entry.word] : [])),
  }
}

/** Describes the first invalid entry, as the beginning of a sentence. */
export function listedHostsFault(text: string): string | undefined {
  for (const entry of parseEntries(text)) if ('fault' in entry) return entry.fault
  return undefined
}

/**
 * The addresses that the listed hosts may have: public ones, those of listed words, and listed addresses. A name is
 * never enough, because its owner could let it resolve to an inner address.
 */
export function addressesAllowed({ rules, classes }: ListedHosts): Allowed {
  const addresses = rules.flatMap((rule) => addressOf(rule) ?? [])
  const toRange = (address: string) =>
    `${address}/${ipaddr.parse(address).kind() === 'ipv4' ? 32 : 128}`
  return { classes: ['external', ...classes], ranges: addresses.map(toRange), names: [] }
}

type Entry = { rule: HostRule } | { word: InnerWord } | { fault: string }

function parseEntries(text: string): Entry[] {
  const list = text.split(',').map((entry) => entry.trim())
  if (list.length > maxEntries) return [{ fault: `it has more than ${maxEntries} entries` }]
  return list.map((entry): Entry => {
    const word = words.find((one) => one === entry.toLowerCase())
    if (word) return { word }
    if (entry.toLowerCase() === 'none') return { fault: '"none" stands beside other entries' }
    const rule = parseHostRule(entry)
    return typeof rule === 'string' ? { fault: rule } : { rule }
  })
}
