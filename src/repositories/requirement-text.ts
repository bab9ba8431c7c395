import type { RequirementValue } from './requirements.ts'

const statusPrefix = 'status:'

/**
 * Reads a requirement of a form or a command line: `ci.yml`, `ci.yml from refs/heads/main`, `status: ci/build` or
 * `status: ci/build by ci-bot, jenkins`.
 */
export function parseRequirement(text: string): RequirementValue {
  const line = text.trim()
  if (!line.startsWith(statusPrefix)) {
    const [workflow, from] = splitAtLast(line, ' from ')
    return from === undefined ? line : { workflow, from }
  }
  const [status, users] = splitAtLast(line.slice(statusPrefix.length).trim(), ' by ')
  return users === undefined
    ? { status }
    : { status, by: users.split(',').map((one) => one.trim()) }
}

/** The same text for a requirement. */
export function formatRequirement(value: RequirementValue): string {
  if (typeof value === 'string') return value
  if ('status' in value)
    return `${statusPrefix} ${value.status}${value.by ? ` by ${value.by.join(', ')}` : ''}`
  return value.from === undefined ? value.workflow : `${value.workflow} from ${value.from}`
}

function splitAtLast(text: string, separator: string): [string, string | undefined] {
  const at = text.lastIndexOf(separator)
  if (at === -1) return [text, undefined]
  return [text.slice(0, at).trim(), text.slice(at + separator.length).trim()]
}
