import { compilePattern, type Effort } from './filter-pattern.ts'
import type { PushFilter } from './workflow.ts'

/** A ref that was pushed. */
export type PushedRef = {
  /** The full name, `refs/heads/main`. */
  ref: string
  /** Files that differ from the previous state of the ref. */
  changedPaths: readonly string[] | 'unknown'
  /** Whether the ref is new. */
  isNew: boolean
}

// Some tenths of a second. Beyond it, as on GitHub, the workflow is started without filtering.
const maxSteps = 5_000_000

/**
 * Whether a push starts a workflow, by GitHub's rules: a filter for branches only excludes tags, and vice versa. Path
 * filters apply to branches, except to new ones, whose changes are unknown.
 */
export function matchesPush(filter: PushFilter, push: PushedRef): boolean {
  const effort = { left: maxSteps }
  return isWanted(filter, push, effort) || effort.left < 0
}

function isWanted(
  filter: PushFilter,
  { ref, changedPaths, isNew }: PushedRef,
  effort: Effort,
): boolean {
  const { branches, branchesIgnore, tags, tagsIgnore } = filter
  const hasBranches = (branches ?? branchesIgnore) !== undefined
  const hasTags = (tags ?? tagsIgnore) !== undefined
  const branch = shortName(ref, 'refs/heads/')
  const tag = shortName(ref, 'refs/tags/')
  if (tag !== undefined) {
    return (hasTags || !hasBranches) && passes(tag, tags, tagsIgnore, effort)
  }
  if (branch === undefined || (hasTags && !hasBranches)) return false
  if (!passes(branch, branches, branchesIgnore, effort)) return false
  return isNew || changedPaths === 'unknown' || passesPaths(filter, changedPaths, effort)
}

// A push without changes matches neither `paths` nor `paths-ignore`.
function passesPaths(
  { paths, pathsIgnore }: PushFilter,
  changedPaths: readonly string[],
  effort: Effort,
): boolean {
  if (paths) {
    const isListed = createMatcher(paths, effort)
    return changedPaths.some(isListed)
  }
  if (!pathsIgnore || changedPaths.length === 0) return true
  const isIgnored = createMatcher(pathsIgnore, effort)
  return changedPaths.some((path) => !isIgnored(path))
}

function passes(
  name: string,
  patterns: string[] | undefined,
  ignored: string[] | undefined,
  effort: Effort,
): boolean {
  if (patterns) return createMatcher(patterns, effort)(name)
  return !ignored || !createMatcher(ignored, effort)(name)
}

/** The last matching pattern decides; one with `!` excludes. */
function createMatcher(patterns: readonly string[], effort: Effort): (name: string) => boolean {
  const rules = patterns.map((pattern) => ({
    takesOut: pattern.startsWith('!'),
    matches: compilePattern(pattern.replace(/^!/, '')),
  }))
  return (name) => {
    const decisive = rules.findLast(({ matches }) => matches(name, effort))
    return decisive !== undefined && !decisive.takesOut
  }
}

function shortName(ref: string, prefix: string): string | undefined {
  return ref.startsWith(prefix) ? ref.slice(prefix.length) : undefined
}
