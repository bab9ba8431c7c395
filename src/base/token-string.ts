import { hash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'

const prefix = 'svc_'
const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const randomLength = 30
const checksumLength = 6
const shape = /^svc_[0-9A-Za-z]{36}$/

/** Returns a new token: `svc_`, 30 random base62 characters (178 bits), and their CRC32 as 6 base62 digits. */
export function newTokenString(): string {
  const random = Array.from({ length: randomLength }, () => digits[randomInt(digits.length)]).join(
    '',
  )
  return prefix + random + checksum(random)
}

/** Whether a string is a well-formed token. Catches typing mistakes without a database query. */
export function isTokenString(text: string): boolean {
  if (!shape.test(text)) return false
  const random = text.slice(prefix.length, prefix.length + randomLength)
  return text.endsWith(checksum(random))
}

/** Returns the stored form of a token: its SHA-256 in hex. Tokens have too much entropy to be guessed from it. */
export function hashToken(token: string): string {
  return hash('sha256', token)
}

/** The CRC32 of a text as 6 base62 digits. The tokens of GitHub and npm end in it, too. */
export function checksum(random: string): string {
  let text = ''
  for (let rest = crc32(random); text.length < checksumLength; rest = Math.floor(rest / 62)) {
    text = `${digits[rest % 62]}${text}`
  }
  return text
}
