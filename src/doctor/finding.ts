/**
 * What a check found. A fault keeps svc from working as it should, or will; a warning is for somebody to
 * judge; `skipped` is what could not be looked at because of something that another check tells of.
 */
export type Level = 'ok' | 'warning' | 'fault' | 'skipped'

export type Finding = {
  level: Level
  /** What was found, in a sentence. */
  found: string
  /** The command, or what else to do, that mends it; null where there is nothing to mend. */
  fix: string | null
}

/** Thrown by a check that cannot look, for a reason of which another check tells. */
export class SkipError extends Error {
  override readonly name = 'Skip'
}

export function ok(found: string): Finding {
  return { level: 'ok', found, fix: null }
}

export function warning(found: string, fix: string): Finding {
  return { level: 'warning', found, fix }
}

export function fault(found: string, fix: string): Finding {
  return { level: 'fault', found, fix }
}

/** The findings, or that all is well when there are none. */
export function orOk(findings: Finding[], found: string): Finding[] {
  return findings.length > 0 ? findings : [ok(found)]
}

const namedAtMost = 10

/** The first few of what may be many findings of one kind, and how many there are besides. */
export function firstOf(findings: Finding[]): Finding[] {
  const [last] = findings.slice(namedAtMost)
  if (!last) return findings
  const more = findings.length - namedAtMost
  const found = `${more} more of this kind.`
  return [
    ...findings.slice(0, namedAtMost),
    { level: last.level, found, fix: last.fix && 'As above.' },
  ]
}

/** How many of something there are, as one says it. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count === 0 ? 'no' : count} ${count === 1 ? one : many}`
}

/** The message of whatever was thrown, in one line. */
export function messageOf(error: unknown): string {
  const [first] = error instanceof AggregateError ? error.errors : [error]
  const text = first instanceof Error ? first.message : String(first)
  return text
    .split(/[\r\n]/)
    .map((line) => line.trim())
    .filter(Boolean)
    .join('; ')
}
