import { randomInt } from 'node:crypto'

/** What fast-check starts from: SVC_FUZZ_SEED repeats a run; a failure names the seed that it had. */
export function fuzzing(): { seed: number } {
  const given = process.env.SVC_FUZZ_SEED
  return { seed: given === undefined ? randomInt(2 ** 31) : Number(given) }
}
