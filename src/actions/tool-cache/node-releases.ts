import semver from 'semver'

/** The names of the release lines of Node.js with long-term support, and their majors. */
export const ltsNames: ReadonlyMap<string, number> = new Map([
  ['argon', 4],
  ['boron', 6],
  ['carbon', 8],
  ['dubnium', 10],
  ['erbium', 12],
  ['fermium', 14],
  ['gallium', 16],
  ['hydrogen', 18],
  ['iron', 20],
  ['jod', 22],
  ['krypton', 24],
])

/** The majors of versions that have long-term support, the newest first. */
export function ltsMajors(versions: readonly string[], now = Date.now()): number[] {
  const majors = new Set(versions.map((version) => semver.parse(version)?.major ?? 0))
  return [...majors].filter((major) => hasSupport(major, now)).sort((one, other) => other - one)
}

// Even majors, from the end of October of the year of their first release; one in April of each even year.
function hasSupport(major: number, now: number): boolean {
  const isEven = major >= 4 && major % 2 === 0
  return isEven && now >= Date.UTC(2013 + major / 2, 9, 31)
}
