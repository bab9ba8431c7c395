import { type Session, unlockedMs } from '#identity/sessions/sessions.ts'

/** How long ago the token may have been given for a sensitive change. */
const sensitiveMs = 10 * 60_000

/** For how long a session may still change something, or something sensitive. Negative if not at all. */
export function unlockedForMs(
  { unlockedUntil }: Pick<Session, 'unlockedUntil'>,
  isSensitive: boolean,
  now: number,
): number {
  return unlockedUntil - now - (isSensitive ? unlockedMs - sensitiveMs : 0)
}
