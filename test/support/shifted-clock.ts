import { writeFile } from 'node:fs/promises'
import { programs } from './programs.ts'

const common = {
  FAKETIME_DONT_FAKE_MONOTONIC: '1',
  // Files have the times of the kernel's clock.
  NO_FAKE_STAT: '1',
}

const toOffset = (minutes: number) => `${minutes < 0 ? '-' : '+'}${Math.abs(minutes)}m`

/** Variables for a process whose clock is ahead of others by some minutes, or behind them. */
export function withClockAhead(minutes: number): Record<string, string> {
  return { ...common, LD_PRELOAD: programs.faketime.find() ?? '', FAKETIME: toOffset(minutes) }
}

/** Variables for a process whose clock can be put ahead while it runs, which it notices within a second. */
export async function withMovableClock(path: string) {
  const putAhead = (minutes: number) => writeFile(path, `${toOffset(minutes)}\n`)
  await putAhead(0)
  const env: Record<string, string> = {
    ...common,
    LD_PRELOAD: programs.faketime.find() ?? '',
    FAKETIME_TIMESTAMP_FILE: path,
    FAKETIME_CACHE_DURATION: '1',
  }
  return { env, putAhead }
}
