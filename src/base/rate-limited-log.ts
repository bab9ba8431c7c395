import type { Log } from './log.ts'

const perSecond = 10

/** Logs events that unauthenticated clients cause, at a limited rate, with a count of omitted lines. */
export function createRateLimitedLog(log: Log) {
  let second = 0
  let written = 0
  let omitted = 0

  return (fields: object, text: string): void => {
    const now = Math.floor(performance.now() / 1000)
    if (now !== second) written = 0
    second = now
    if (written >= perSecond) {
      omitted += 1
      return
    }
    written += 1
    log.info({ ...fields, ...(omitted > 0 && { omittedBefore: omitted }) }, text)
    omitted = 0
  }
}
