import { compilePattern, type MatchBudget } from './filter-pattern.ts'
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
  const budget = { left: maxSteps }
  return isWanted(filter, push, budget) || budget.left < 0
}

function isWanted(
  filter: PushFilter,
  { ref, changedPaths, isNew }: PushedRef,
  budget: MatchBudget,
): boolean {
  const { branches, branchesIgnore, tags, tagsIgnore } = filter
  const hasBranches = (branches ?? branchesIgnore) !== undefined
  const hasTags = (tags ?? tagsIgnore) !== undefined
  const branch = shortName(ref, 'refs/heads/')
  const tag = shortName(ref, 'refs/tags/')
  if (tag !== undefined) {
    return (hasTags || !hasBranches) && passes(tag, tags, tagsIgnore, budget)
  }
  if (branch === undefined || (hasTags && !hasBranches)) return false
  if (!passes(branch, branches, branchesIgnore, budget)) return false
  return isNew || changedPaths === 'unknown' || passesPaths(filter, changedPaths, budget)
}

// A push without changes matches neither `paths` nor `paths-ignore`.
function passesPaths(
  { paths, pathsIgnore }: PushFilter,
  changedPaths: readonly string[],
  budget: MatchBudget,
): boolean {
  if (paths) {
    const isListed = createMatcher(paths, budget)
    return changedPaths.some(isListed)
  }
  if (!pathsIgnore || changedPaths.length === 0) return true
  const isIgnored = createMatcher(pathsIgnore, budget)
  return changedPaths.some((path) => !isIgnored(path))
}

function passes(
  name: string,
  patterns: string[] | undefined,
  ignored: string[] | undefined,
  budget: MatchBudget,
): boolean {
  if (patterns) return createMatcher(patterns, budget)(name)
  return !ignored || !createMatcher(ignored, budget)(name)
}

/** The last matching pattern decides; one with `!` excludes. */
function createMatcher(
  patterns: readonly string[],
  budget: MatchBudget,
): (name: string) => boolean {
  const rules = patterns.map((pattern) => ({
    isNegated: pattern.startsWith('!'),
    matches: compilePattern(pattern.replace(/^!/, '')),
  }))
  return (name) => {
    const decisive = rules.findLast(({ matches }) => matches(name, budget))
    return decisive !== undefined && !decisive.isNegated
  }
}

function shortName(ref: string, prefix: string): string | undefined {
  return ref.startsWith(prefix) ? ref.slice(prefix.length) : undefined
}
