import { programs } from './programs.ts'

/** Variables for a process whose clock is ahead of others by some minutes, or behind them. */
export function withClockAhead(minutes: number): Record<string, string> {
  return {
    LD_PRELOAD: programs.faketime.find() ?? '',
    FAKETIME: `${minutes < 0 ? '-' : '+'}${Math.abs(minutes)}m`,
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
    // Files have the times of the kernel's clock.
    NO_FAKE_STAT: '1',
  }
}
