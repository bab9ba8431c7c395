/**
 * A fault keeps svc from working correctly, now or later; a warning needs a person's judgment; a check is
 * skipped when a fault that another check reports prevents it.
 */
export type Level = 'ok' | 'warning' | 'fault' | 'skipped'

export type Finding = {
  level: Level
  /** One sentence. */
  found: string
  /** The command or action that fixes it; null when there is nothing to fix. */
  fix: string | null
}

/** Findings, nested in any way; false or undefined for none. */
export type Findings = Finding | false | undefined | Findings[]

/** Thrown by a check that cannot run, for a reason that another check reports. */
export class SkipError extends Error {
  override readonly name = 'SkipError'
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

export function listOf(findings: Findings): Finding[] {
  if (Array.isArray(findings)) return findings.flatMap(listOf)
  return findings ? [findings] : []
}

/** Returns the findings, or a single ok when there are none. */
export function orOk(findings: Findings, found: string): Finding[] {
  const all = listOf(findings)
  return all.length > 0 ? all : [ok(found)]
}

const maxListed = 10

/** Returns the first findings of a kind, and the number of the rest. */
export function firstOf(findings: Findings): Finding[] {
  const all = listOf(findings)
  const [last] = all.slice(maxListed)
  if (!last) return all
  const found = `${all.length - maxListed} more of this kind.`
  return [...all.slice(0, maxListed), { level: last.level, found, fix: last.fix && 'As above.' }]
}

/** Formats a count with its noun: "no faults", "1 fault", "2 faults". */
export function countOrNo(count: number, singular: string, plural = `${singular}s`): string {
  return `${count === 0 ? 'no' : count} ${count === 1 ? singular : plural}`
}

/** Returns the message of a thrown value, in one line. */
export function messageOf(error: unknown): string {
  const [first] = error instanceof AggregateError ? error.errors : [error]
  const text = first instanceof Error ? first.message : String(first)
  return text
    .split(/[\r\n]/)
    .map((line) => line.trim())
    .filter(Boolean)
    .join('; ')
}
