import { randomInt } from 'node:crypto'
import fc from 'fast-check'

/** What fast-check starts from: SVC_FUZZ_SEED repeats a run; a failure names the seed that it had. */
export function fuzzing(): { seed: number } {
  const given = process.env.SVC_FUZZ_SEED
  return { seed: given === undefined ? randomInt(2 ** 31) : Number(given) }
}

/** Any character. The unit 'binary' of fast-check is the same, and takes a second of each process. */
export const character = fc
  .oneof(
    fc.integer({ max: 0x7f, min: 0 }),
    fc.integer({ max: 0xd7ff, min: 0 }),
    fc.integer({ max: 0x10ffff, min: 0xe000 }),
  )
  .map((codePoint) => String.fromCodePoint(codePoint))
