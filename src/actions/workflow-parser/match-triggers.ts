import { createTimeSlices } from '#base/time-slices.ts'
import { compilePattern, type MatchBudget } from './reading/filter-pattern.ts'
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

/** The steps of matching that are left for a push, in slices of time so that others can be served meanwhile. */
export type PushBudget = MatchBudget & ReturnType<typeof createTimeSlices>

// Some tenths of a second.
const maxSteps = 20_000_000

/** Creates the budget that all workflows of a pushed ref share. */
export function createPushBudget(): PushBudget {
  return { left: maxSteps, ...createTimeSlices() }
}

/**
 * Whether a push starts a workflow, by GitHub's rules: a filter for branches only excludes tags, and vice versa. Path
 * filters apply to branches, except to new ones, whose changes are unknown. Beyond the budget, as on GitHub, the
 * workflow is started without filtering.
 */
export async function matchesPush(
  filter: PushFilter,
  push: PushedRef,
  budget: PushBudget,
): Promise<boolean> {
  return (await isWanted(filter, push, budget)) || budget.left < 0
}

async function isWanted(
  filter: PushFilter,
  { ref, changedPaths, isNew }: PushedRef,
  budget: PushBudget,
): Promise<boolean> {
  const { branches, branchesIgnore, tags, tagsIgnore } = filter
  const hasBranches = (branches ?? branchesIgnore) !== undefined
  const hasTags = (tags ?? tagsIgnore) !== undefined
  const branch = shortName(ref, 'refs/heads/')
  const tag = shortName(ref, 'refs/tags/')
  if (tag !== undefined) {
    return (hasTags || !hasBranches) && (await passes(tag, tags, tagsIgnore, budget))
  }
  if (branch === undefined || (hasTags && !hasBranches)) return false
  if (!(await passes(branch, branches, branchesIgnore, budget))) return false
  return isNew || changedPaths === 'unknown' || passesPaths(filter, changedPaths, budget)
}

// A push without changes matches neither `paths` nor `paths-ignore`.
async function passesPaths(
  { paths, pathsIgnore }: PushFilter,
  changedPaths: readonly string[],
  budget: PushBudget,
): Promise<boolean> {
  const patterns = paths ?? pathsIgnore
  if (!patterns || (!paths && changedPaths.length === 0)) return true
  const matches = createMatcher(patterns, budget)
  for (const path of changedPaths) {
    if (budget.left < 0 || (await matches(path)) === (paths !== undefined)) return true
  }
  return false
}

async function passes(
  name: string,
  patterns: string[] | undefined,
  ignored: string[] | undefined,
  budget: PushBudget,
): Promise<boolean> {
  if (patterns) return createMatcher(patterns, budget)(name)
  return !ignored || !(await createMatcher(ignored, budget)(name))
}

/** The last matching pattern decides; one with `!` excludes. */
function createMatcher(
  patterns: readonly string[],
  budget: PushBudget,
): (name: string) => Promise<boolean> {
  const rules = patterns.toReversed().map((pattern) => ({
    isNegated: pattern.startsWith('!'),
    matches: compilePattern(pattern.replace(/^!/, '')),
  }))
  return async (name) => {
    for (const { isNegated, matches } of rules) {
      if (matches(name, budget)) return !isNegated
      await budget.rest()
    }
    return false
  }
}

function shortName(ref: string, prefix: string): string | undefined {
  return ref.startsWith(prefix) ? ref.slice(prefix.length) : undefined
}
