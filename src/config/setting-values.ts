import { resolve } from 'node:path'
import { Sensitive } from '../base/sensitive.ts'
import { trimEndOf } from '../base/trim-end.ts'

export const kib = 1024
export const mib = 1024 * kib
export const gib = 1024 * mib
const units: Record<string, number> = { '': 1, KiB: kib, MiB: mib, GiB: gib }

/** Reads a whole number in digits. */
export function wholeNumber(least: number, most: number) {
  return (text: string): number | undefined => {
    const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
    return value >= least && value <= most ? value : undefined
  }
}

/** Reads a number of bytes, and says so. */
export function size(least: number, most: number) {
  const accepts = `a number of bytes, or one with KiB, MiB or GiB, from ${toSize(least)} to ${toSize(most)}`
  const parse = (text: string): number | undefined => {
    const [, digits = '', unit = ''] = /^(\d{1,15})(KiB|MiB|GiB|)$/.exec(text) ?? []
    const value = digits === '' ? Number.NaN : Number(digits) * (units[unit] ?? Number.NaN)
    return value >= least && value <= most ? value : undefined
  }
  return { accepts, parse }
}

function toSize(bytes: number): string {
  const [unit = '', factor = 1] =
    Object.entries(units).findLast(([, one]) => bytes % one === 0 && bytes >= one) ?? []
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

export const encryptionKeyBytes = 32
export const encryptionKeyForm = `${encryptionKeyBytes} bytes in base64 or hex`
const keysAtMost = 16

/** Reads keys to encrypt with, separated by commas or line ends; undefined when one of them is none. */
export function parseEncryptionKeys(text: string): Sensitive<readonly Buffer[]> | undefined {
  const words = text.split(/[,\s]+/).filter((word) => word !== '')
  const keys = words.map(toEncryptionKey).filter((key) => key !== undefined)
  const isFine = keys.length === words.length && keys.length > 0 && keys.length <= keysAtMost
  return isFine ? new Sensitive(keys) : undefined
}

function toEncryptionKey(word: string): Buffer | undefined {
  const isHex = word.length === 2 * encryptionKeyBytes && /^[0-9a-fA-F]+$/.test(word)
  if (isHex) return Buffer.from(word, 'hex')
  const key = /^[A-Za-z0-9+/]+={0,2}$/.test(word) ? Buffer.from(word, 'base64') : undefined
  return key?.length === encryptionKeyBytes ? key : undefined
}

/** Reads absolute paths, separated by colons. */
export function parsePaths(text: string): string[] | undefined {
  const paths = text.split(':')
  const isFine = (path: string) => path.startsWith('/') && !/[\0\r\n]/.test(path)
  return paths.every(isFine) ? paths.map((path) => resolve(path)) : undefined
}

const delaysAtMost = 30
const delayMaxSeconds = 604_800

/** Reads delays in seconds, one at least. */
export function parseSchedule(text: string): readonly [number, ...number[]] | undefined {
  const delays = text.split(',').map((part) => wholeNumber(0, delayMaxSeconds)(part.trim()))
  const [first, ...others] = delays.filter((delay) => delay !== undefined)
  if (first === undefined || others.length + 1 < delays.length || delays.length > delaysAtMost)
    return undefined
  return [first, ...others]
}
