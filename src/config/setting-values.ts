import { resolve } from 'node:path'
import ipaddr from 'ipaddr.js'
import { isSecure } from '#base/network.ts'
import { Sensitive } from '#base/sensitive.ts'
import { trimEndOf } from '#base/trim-end.ts'

export const kib = 1024
export const mib = 1024 * kib
export const gib = 1024 * mib
const units: Record<string, number> = { '': 1, KiB: kib, MiB: mib, GiB: gib }

/** The values of an on/off setting. `true` and `false` are accepted as well, like in SVC_SSH_ANONYMOUS_READ. */
export const onOrOff = {
  accepts: 'on or off, or true or false',
  parse: (text: string): boolean | undefined => {
    if (text === 'on' || text === 'true') return true
    return text === 'off' || text === 'false' ? false : undefined
  },
}

/** Returns a parser for decimal integers from `min` to `max`. */
export function wholeNumber(min: number, max: number) {
  return (text: string): number | undefined => {
    const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
    return value >= min && value <= max ? value : undefined
  }
}

/** Returns a parser for numbers from `min` to `max`, and the description of what it accepts. */
const inUnit = (unit: string) => (min: number, max: number) => ({
  accepts: `${unit} from ${min} to ${max}`,
  parse: wholeNumber(min, max),
})

export const count = inUnit('a whole number')
export const seconds = inUnit('seconds')
export const days = inUnit('days')

/** Returns a parser for sizes from `min` to `max` bytes, and the description of what it accepts. */
export function size(min: number, max: number) {
  const accepts = `a number of bytes, or one with KiB, MiB or GiB, from ${exactSize(min)} to ${exactSize(max)}`
  const parse = (text: string): number | undefined => {
    const [, digits = '', unit = ''] = /^(\d{1,15})(KiB|MiB|GiB|)$/.exec(text) ?? []
    const value = digits === '' ? Number.NaN : Number(digits) * (units[unit] ?? Number.NaN)
    return value >= min && value <= max ? value : undefined
  }
  return { accepts, parse }
}

/** A number of bytes as `size` parses it. */
export function exactSize(bytes: number): string {
  const [unit = '', factor = 1] =
    Object.entries(units).findLast(
      ([, bytesPerUnit]) => bytes % bytesPerUnit === 0 && bytes >= bytesPerUnit,
    ) ?? []
  return `${bytes / factor}${unit}`
}

export function parseHost(text: string): string | undefined {
  return /^[\w.:-]+$/.test(text) ? text : undefined
}

export function parseBaseUrl(text: string): string | undefined {
  const url = URL.parse(text)
  if (!url || !/^https?:$/.test(url.protocol)) return undefined
  if (url.username || url.password || url.search || url.hash) return undefined
  return trimEndOf(url.href, '/')
}

/** Parses the issuer of an identity provider, whose answers must not be readable on the way. */
export function parseIssuer(text: string): string | undefined {
  const url = URL.parse(text)
  if (!url || parseBaseUrl(text) === undefined) return undefined
  return isSecure(url) ? text : undefined
}

export function parseClaim(text: string): string | undefined {
  return /^[\x21-\x7e]{1,255}$/.test(text) ? text : undefined
}

export function parseGroups(text: string): readonly string[] | undefined {
  const names = text.split(',').map((name) => name.trim())
  return names.every((name) => /^[^\u0000-\u001f\u007f-\u009f]{1,255}$/.test(name))
    ? names
    : undefined
}

/** Parses addresses and CIDRs into CIDRs; undefined when one of them is invalid. */
export function parseRanges(text: string): readonly string[] | undefined {
  const ranges = text.split(',').map((entry) => toRange(entry.trim()))
  const valid = ranges.filter((range) => range !== undefined)
  return valid.length === ranges.length ? valid : undefined
}

function toRange(text: string): string | undefined {
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return `${text}/32`
  if (ipaddr.IPv6.isValid(text)) return `${text}/128`
  if (!ipaddr.IPv4.isValidCIDRFourPartDecimal(text) && !ipaddr.IPv6.isValidCIDR(text))
    return undefined
  const [address, bits] = ipaddr.parseCIDR(text)
  return `${address}/${bits}`
}

export const encryptionKeyBytes = 32
export const encryptionKeyForm = `${encryptionKeyBytes} bytes in base64 or hex`
const maxKeys = 16

/** Parses encryption keys separated by commas or white space; undefined when one of them is invalid. */
export function parseEncryptionKeys(text: string): Sensitive<readonly Buffer[]> | undefined {
  const words = text.split(/[,\s]+/).filter((word) => word !== '')
  const keys = words.map(toEncryptionKey).filter((key) => key !== undefined)
  const isValid = keys.length === words.length && keys.length > 0 && keys.length <= maxKeys
  return isValid ? new Sensitive(keys) : undefined
}

function toEncryptionKey(word: string): Buffer | undefined {
  const isHex = word.length === 2 * encryptionKeyBytes && /^[0-9a-fA-F]+$/.test(word)
  if (isHex) return Buffer.from(word, 'hex')
  const key = /^[A-Za-z0-9+/]+={0,2}$/.test(word) ? Buffer.from(word, 'base64') : undefined
  return key?.length === encryptionKeyBytes ? key : undefined
}

/** Parses absolute paths separated by colons. */
export function parsePaths(text: string): string[] | undefined {
  const paths = text.split(':')
  const isValid = (path: string) => path.startsWith('/') && !/[\0\r\n]/.test(path)
  return paths.every(isValid) ? paths.map((path) => resolve(path)) : undefined
}

/** Parses variables for workflow steps: a JSON object of strings, without the names that identify a run. */
export function parseStepEnv(text: string): Record<string, string> | undefined {
  const entries = entriesOf(text)
  const isValid = ([name, value]: [string, unknown]) =>
    /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) &&
    !/^(GITHUB|RUNNER|ACTIONS|SVC)_/i.test(name) &&
    typeof value === 'string' &&
    !value.includes('\0')
  if (!entries?.every(isValid)) return undefined
  // All values are strings.
  return Object.fromEntries(entries) as Record<string, string>
}

function entriesOf(text: string): [string, unknown][] | undefined {
  try {
    const value: unknown = JSON.parse(text)
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    return isObject ? Object.entries(value) : undefined
  } catch {
    return undefined
  }
}

const maxDelays = 30
const maxDelaySeconds = 604_800

/** Parses one or more delays in seconds, separated by commas. */
export function parseSchedule(text: string): readonly [number, ...number[]] | undefined {
  const delays = text.split(',').map((part) => wholeNumber(0, maxDelaySeconds)(part.trim()))
  const [first, ...others] = delays.filter((delay) => delay !== undefined)
  if (first === undefined || others.length + 1 < delays.length || delays.length > maxDelays)
    return undefined
  return [first, ...others]
}
