import { randomBytes } from 'node:crypto'

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'
const timeLength = 10
const randomLength = 16

let lastTime = 0
const lastRandom: number[] = []
let random = randomBytes(0)
let used = 0

/**
 * Returns a new id: 26 characters of Crockford's base32 in lower case, sortable by creation time like a ULID
 * (48 bits of milliseconds, 80 random bits). Ids of the same millisecond count upwards.
 */
export function newId(now = Date.now()): string {
  if (now > lastTime) {
    lastTime = now
    renewRandom()
  } else {
    increment(lastRandom)
  }
  let id = toBase32(lastTime)
  for (const digit of lastRandom) id += alphabet[digit]
  return id
}

/** Returns a new id that sorts after another one, also when that comes from a machine whose clock is ahead. */
export function newIdAfter(previous: string, now: number): string {
  const id = newId(now)
  if (id > previous) return id
  const digits = [...previous].map((digit) => alphabet.indexOf(digit))
  increment(digits)
  return digits.map((digit) => alphabet[digit]).join('')
}

/** Returns a lower bound: it sorts before every id made at or after a time. */
export function idBefore(time: number): string {
  return toBase32(time)
}

/** Whether a text is a well-formed id. */
export function isId(text: string): boolean {
  return /^[0-9a-hjkmnp-tv-z]{26}$/.test(text)
}

// Random bytes are fetched in large blocks: every request needs an id, and small reads are slow.
function renewRandom(): void {
  if (used === random.length) {
    random = randomBytes(randomLength * 256)
    used = 0
  }
  for (let index = 0; index < randomLength; index++) lastRandom[index] = (random[used++] ?? 0) & 31
}

function increment(digits: number[]): void {
  for (let index = digits.length - 1; index >= 0; index--) {
    const digit = digits[index] ?? 0
    digits[index] = (digit + 1) & 31
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
