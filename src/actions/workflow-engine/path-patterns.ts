import { posix } from 'node:path'
import type { Folders } from '../sandbox/sandbox.ts'

/** The paths that an action is given: names, patterns, and patterns of what is left out. */
export type PathPatterns = {
  /** Absolute paths below which everything is that may match; none is below another. */
  starts: string[]
  /** Whether every match is one of `starts`. */
  isLiteral: boolean
  /** Patterns of absolute paths; a matching folder includes everything in it. */
  rules: string[]
  /** Patterns of places that steps cannot write to. */
  elsewhere: string[]
}

const maxPatterns = 200

/** Reads patterns, one a line, relative to the workspace; `~` is the home. Throws when there are too many. */
export function readPathPatterns(text: string, inside: Folders): PathPatterns {
  const lines = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
  if (lines.length > maxPatterns) throw new Error(`There are more than ${maxPatterns} paths.`)
  const roots = [inside.workspace, inside.home, inside.temp]
  const isWithin = (path: string) => roots.some((root) => `${path}/`.startsWith(`${root}/`))
  const all = lines.map((line) => {
    const isNegated = line.startsWith('!')
    const pattern = toAbsolute(isNegated ? line.slice(1).trim() : line, inside)
    return { line, isNegated, pattern, start: literalStart(pattern) }
  })
  const isUsable = ({ start, isNegated }: (typeof all)[number]) => isNegated || isWithin(start)
  const usable = all.filter(isUsable)
  const chosen = usable.filter(({ isNegated }) => !isNegated)
  return {
    starts: outermost(chosen.map(({ start }) => start)),
    isLiteral: usable.every(({ isNegated, pattern, start }) => !isNegated && pattern === start),
    rules: usable.map(({ isNegated, pattern }) => (isNegated ? `!${pattern}` : pattern)),
    elsewhere: all.filter((one) => !isUsable(one)).map(({ line }) => line),
  }
}

/** The folder that contains all paths. */
export function commonFolder(paths: readonly string[]): string {
  const [first = '/', ...others] = paths
  const contains = (folder: string) => others.every((path) => `${path}/`.startsWith(`${folder}/`))
  let folder = first
  while (folder !== '/' && !contains(folder)) folder = posix.dirname(folder)
  return folder
}

/** The absolute form of a path that is relative to the workspace; `~` is the home. */
export function toAbsolute(path: string, { workspace, home }: Folders): string {
  return posix.resolve(workspace, /^~(\/|$)/.test(path) ? home + path.slice(1) : path)
}

function literalStart(pattern: string): string {
  const segments = pattern.split('/')
  const glob = segments.findIndex((segment) => /[*?[]/.test(segment))
  return glob === -1 ? pattern : segments.slice(0, glob).join('/') || '/'
}

function outermost(paths: readonly string[]): string[] {
  const unique = new Set(paths)
  return [...unique].filter((path) => {
    for (let folder = path; folder !== '/'; ) {
      folder = posix.dirname(folder)
      if (unique.has(folder)) return false
    }
    return true
  })
}
