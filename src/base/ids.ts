import { randomBytes } from 'node:crypto'

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'
const timeLength = 10
const randomLength = 16

let random = randomBytes(0)
let used = 0

/**
 * Returns functions that make ids: 26 characters of Crockford's base32 in lower case, sortable by creation time like a
 * ULID (48 bits of milliseconds, 80 random bits). Ids of the same millisecond count upwards, as do those of a clock that
 * has gone back.
 */
export function createIds() {
  let lastTime = 0
  let lastRandom: number[] = []

  function newId(now = Date.now()): string {
    if (now > lastTime) {
      lastTime = now
      lastRandom = newRandom()
    } else {
      increment(lastRandom)
    }
    return toBase32(lastTime) + toDigits(lastRandom)
  }

  /**
   * Returns a new id that sorts after another one, also when that comes from a machine whose clock is ahead. One that only
   * counted on from there could be the next id of that machine.
   */
  function newIdAfter(previous: string, now: number): string {
    const id = newId(now)
    return id > previous ? id : toBase32(timeIn(previous) + 1) + toDigits(newRandom())
  }

  return { newId, newIdAfter }
}

/** The ids of this process. */
export const { newId, newIdAfter } = createIds()

/** Returns a lower bound: it sorts before every id made at or after a time. */
export function idBefore(time: number): string {
  return toBase32(time)
}

/** The pattern of an id. */
export const idPattern = '[0-9a-hjkmnp-tv-z]{26}'
const id = new RegExp(`^${idPattern}$`)

/** Whether a text is a well-formed id. */
export function isId(text: string): boolean {
  return id.test(text)
}

// Random bytes are fetched in large blocks: every request needs an id, and small reads are slow.
function newRandom(): number[] {
  if (used === random.length) {
    random = randomBytes(randomLength * 256)
    used = 0
  }
  const digits: number[] = []
  for (let index = 0; index < randomLength; index++) digits[index] = (random[used++] ?? 0) & 31
  return digits
}

function increment(digits: number[]): void {
  for (let index = digits.length - 1; index >= 0; index--) {
    const digit = digits[index] ?? 0
    digits[index] = (digit + 1) & 31
    if (digit !== 31) return
  }
}

function toDigits(values: number[]): string {
  let text = ''
  for (const value of values) text += alphabet[value]
  return text
}

function timeIn(id: string): number {
  let time = 0
  for (const digit of id.slice(0, timeLength)) time = time * 32 + alphabet.indexOf(digit)
  return time
}

function toBase32(milliseconds: number): string {
  let text = ''
  for (let rest = milliseconds; text.length < timeLength; rest = Math.floor(rest / 32)) {
    text = `${alphabet[rest % 32]}${text}`
  }
  return text
}
