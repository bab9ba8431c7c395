import { randomBytes } from 'node:crypto'

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'
const timeLength = 10
const randomLength = 16

let lastTime = 0
const lastRandom: number[] = []
let random = randomBytes(0)
let taken = 0

/**
 * A new id: 26 characters of Crockford's base32 in lower case, sortable by creation time like a ULID
 * (48 bits of milliseconds, 80 random bits). Ids made in the same millisecond count upwards.
 */
export function newId(now = Date.now()): string {
  if (now > lastTime) {
    lastTime = now
    takeRandom()
  } else {
    increment(lastRandom)
  }
  let id = toBase32(lastTime)
  for (const digit of lastRandom) id += alphabet[digit]
  return id
}

/** What sorts before every id that was made at a time or later. */
export function idBefore(time: number): string {
  return toBase32(time)
}

/** Whether a text has the form of an id. */
export function isId(text: string): boolean {
  return /^[0-9a-hjkmnp-tv-z]{26}$/.test(text)
}

// Each request asks for an id, and many small requests for randomness take longer than a few large ones.
function takeRandom(): void {
  if (taken === random.length) {
    random = randomBytes(randomLength * 256)
    taken = 0
  }
  for (let place = 0; place < randomLength; place++) lastRandom[place] = (random[taken++] ?? 0) & 31
}

function increment(digits: number[]): void {
  for (let place = digits.length - 1; place >= 0; place--) {
    const digit = digits[place] ?? 0
    digits[place] = (digit + 1) & 31
    if (digit !== 31) return
  }
}

function toBase32(milliseconds: number): string {
  let text = ''
  for (let rest = milliseconds; text.length < timeLength; rest = Math.floor(rest / 32)) {
    text = `${alphabet[rest % 32]}${text}`
  }
  return text
}
