import semver from 'semver'
import type { SetupTool } from '../workflow-parser/setup-actions.ts'
import { newestFirst, toSemanticVersion } from './tool-version.ts'

/** A text that specifies no version; the message says so. */
export class VersionError extends Error {
  override readonly name = 'VersionError'
}

type Options = {
  tool: SetupTool
  /** A specification as the actions accept it: `20`, `lts/*`, `>=3.9 <3.13`, `stable`. */
  spec: string
  /** Semantic versions. */
  versions: readonly string[]
  /** Whether a version before its release will do where no release fits. */
  allowsPrereleases?: boolean
}

const maxLength = 200

/** Selects the newest version that fits a specification. Throws a VersionError for a text that is none. */
export function selectVersion({ tool, spec, versions, allowsPrereleases = false }: Options) {
  const text = spec.trim()
  if (text.length > maxLength) {
    throw new VersionError(`A version has at most ${maxLength} characters.`)
  }
  const sorted = newestFirst(versions)
  const releases = sorted.filter((version) => semver.parse(version)?.prerelease.length === 0)
  if (/^(\*|x|latest|)$/i.test(text)) return releases[0] ?? sorted[0]
  const byWord = words[tool]?.(text, { sorted, releases })
  if (byWord) return byWord.version
  const range = toRange(tool, text)
  const fits = (options: { includePrerelease?: boolean }) =>
    sorted.find((version) => satisfies(version, range, options))
  return fits({}) ?? (allowsPrereleases ? fits({ includePrerelease: true }) : undefined)
}

type Known = {
  /** All versions, and those that are releases, the newest first. */
  sorted: string[]
  releases: string[]
}

/** The words of a tool; undefined for a text that is not one of them. */
type Words = (text: string, known: Known) => { version: string | undefined } | undefined

const words: Partial<Record<SetupTool, Words>> = {
  node(text, { releases }) {
    if (/^(node|current)$/i.test(text)) return { version: releases[0] }
    const [, line] = /^lts\/(.+)$/i.exec(text) ?? []
    if (line === undefined) return undefined
    const majors = ltsMajors(releases)
    const back = /^-\d{1,3}$/.test(line) ? Number(line.slice(1)) : 0
    const isNumbered = line === '*' || back > 0
    const major = isNumbered ? majors[back] : ltsNames.get(line.toLowerCase())
    if (!isNumbered && major === undefined) {
      throw new VersionError(`There is no release line ${text} of Node.js.`)
    }
    return { version: releases.find((version) => semver.parse(version)?.major === major) }
  },

  go(text, { releases }) {
    if (text === 'stable') return { version: releases[0] }
    if (text !== 'oldstable') return undefined
    const lineOf = (version = '') => version.split('.').slice(0, 2).join('.')
    return { version: releases.find((version) => lineOf(version) !== lineOf(releases[0])) }
  },

  rust(text, { sorted, releases }) {
    if (text === 'stable') return { version: releases[0] }
    if (text !== 'beta' && text !== 'nightly') return undefined
    const isOfChannel = (version: string) => semver.parse(version)?.prerelease[0] === text
    return { version: sorted.find(isOfChannel) }
  },

  bun: (text, { sorted }) => (text === 'canary' ? { version: sorted[0] } : undefined),
  deno: (text, { releases }) => (text === 'lts' ? { version: releases[0] } : undefined),
  ruby(text, { releases }) {
    if (text === 'head') return { version: undefined }
    return text === 'ruby' ? { version: releases[0] } : undefined
  },
}

/** A range in the syntax of semver, and versions that it excludes. */
type VersionRange = { range: string; excluded: string[]; build: string | undefined }

function toRange(tool: SetupTool, text: string): VersionRange {
  const clauses = tool === 'python' ? text.split(',').map((clause) => clause.trim()) : [text]
  const excluded = clauses.filter((clause) => clause.startsWith('!='))
  const included = clauses.filter((clause) => !clause.startsWith('!='))
  const range = included.map((clause) => toClause(tool, clause)).join(' ') || '*'
  const excludedRanges = excluded.map((clause) => toClause('python', clause.slice(2).trim()))
  if ([range, ...excludedRanges].some((one) => semver.validRange(one) === null)) {
    throw new VersionError(`${JSON.stringify(text)} is not a version.`)
  }
  const build = tool === 'java' && range.includes('+') ? range : undefined
  return { range, excluded: excludedRanges, build }
}

function toClause(tool: SetupTool, text: string): string {
  switch (tool) {
    case 'python': {
      // PEP 440: `~=3.9` is at least 3.9 and before 4; `~=3.9.2` is before 3.10.
      const [, major, minor, patch] = /^~= ?(\d+)\.(\d+)(?:\.(\d+))?$/.exec(text) ?? []
      if (patch !== undefined) return `~${major}.${minor}.${patch}`
      if (major !== undefined) return `^${major}.${minor}`
      if (/-dev$/.test(text)) return `~${text.replace(/-dev$/, '')}.0-0`
      return exact(tool, text.replace(/^={2,3} ?/, ''))
    }
    case 'java':
      if (/^\d[\d.]*-ea$/.test(text)) return `~${toSemanticVersion(tool, text)}`
      return /[+_-]/.test(text) ? exact(tool, text) : text.replace(/^1\.(?=\d)/, '')
    case 'dotnet': {
      // A feature band: 8.0.1xx.
      const [, line, band] = /^(\d+\.\d+)\.(\d)xx$/.exec(text) ?? []
      return line === undefined ? text : `>=${line}.${band}00 <${line}.${Number(band) + 1}00`
    }
    case 'ruby':
      return text.replace(/^ruby-/, '')
    case 'node':
    case 'go':
    case 'rust':
    case 'pnpm':
    case 'bun':
    case 'deno':
    case 'uv':
      return exact(tool, text.replace(/^(go|bun-)(?=v?\d)/, ''))
  }
}

// `1.21rc1` is a version, and `1.21` is a range.
function exact(tool: SetupTool, text: string): string {
  return /^v?\d+(\.\d+){1,2}-?(a|b|rc|alpha|beta)\.?\d|[+_-]\d/.test(text)
    ? (toSemanticVersion(tool, text) ?? text)
    : text
}

function satisfies(
  version: string,
  { range, excluded, build }: VersionRange,
  options: { includePrerelease?: boolean },
): boolean {
  // semver ignores builds; for Java they are part of the version.
  if (build !== undefined) return semver.compareBuild(version, build) === 0
  const isExcluded = excluded.some((one) => semver.satisfies(version, one))
  return !isExcluded && semver.satisfies(version, range, options)
}

/** The names of the release lines of Node.js with long-term support, and their majors. */
const ltsNames: ReadonlyMap<string, number> = new Map([
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
