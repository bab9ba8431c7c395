import { printable } from '../../base/format.ts'

const leakOption = 'leak.allow='
const shownMaxLength = 100

/** Reads push options: `leak.allow` with the id of a finding, once for each. All others have no effect. */
export function readPushOptions(options: readonly string[]): {
  allowedLeaks: string[]
  unknown: string[]
} {
  const isKnown = (option: string) =>
    option.startsWith(leakOption) && /^[0-9a-f]{12}$/.test(option.slice(leakOption.length))
  const allowed = options.filter(isKnown).map((option) => option.slice(leakOption.length))
  return {
    allowedLeaks: [...new Set(allowed)],
    unknown: options.filter((option) => !isKnown(option)),
  }
}

/** The line for the client's terminal about an option that has no effect. */
export function unknownOption(option: string): string {
  const characters = Array.from(printable(option))
  const start = characters.slice(0, shownMaxLength).join('')
  const shown = characters.length > shownMaxLength ? `${start}…` : start
  return `The push option "${shown}" has no effect: the only option is leak.allow with the id of a finding.`
}
