import { Problem } from '../../base/problem.ts'
import { findObjects } from '../../git/objects/find-objects.ts'
import type { Git } from '../../git/process/git-process.ts'
import { findForced } from '../../git/refs/forced-updates.ts'
import { zeroId } from '../../git/refs/ref-name.ts'
import type { RefUpdate } from '../../git/refs/refs.ts'
import { type Protection, protectionsOf, shortNameOf } from '../../repositories/protection-rules.ts'
import type { Protections } from '../../repositories/protections.ts'
import type { Repository } from '../../repositories/repositories.ts'
import { openQuarantine } from './pushed-objects.ts'
import type { Push } from './receive-pack.ts'

type Dependencies = {
  git: Git
  protections: Pick<Protections, 'list'>
  /** Whether a workflow file has a successful run at a commit. */
  hasSuccessfulRun: (repositoryId: string, commit: string, file: string) => Promise<boolean>
}

/** An update with a protection of its ref, or of the ref that it moves. */
type Guarded = { update: RefUpdate; ref: string; rule: Protection }

/**
 * Checks a push against the protections of its refs. Throws the Problem of the first update that is not allowed:
 * `branch_protected`, `tag_protected` or `run_required`.
 */
export async function refuseProtected(
  dependencies: Dependencies,
  push: Push,
  repository: Repository,
  updates: RefUpdate[],
  targets: ReadonlyMap<string, string>,
): Promise<void> {
  const all = await dependencies.protections.list(repository)
  if (all.length === 0) return
  const guarded = updates.flatMap((update) =>
    [...new Set([update.ref, targets.get(update.ref) ?? update.ref])].flatMap((ref) =>
      protectionsOf(ref, all).map((rule) => ({ update, ref, rule })),
    ),
  )
  const [first] = guarded
  if (!first) return
  if (!repository.asOwner)
    throw refusal(first, 'only the owner of the repository or an admin may change it.')
  await refuseOwner(dependencies, push, repository, guarded)
}

async function refuseOwner(
  { git, hasSuccessfulRun }: Dependencies,
  push: Push,
  repository: Repository,
  guarded: Guarded[],
): Promise<void> {
  const closed = guarded.find(({ rule }) => rule.owners === 'none')
  if (closed) {
    throw refusal(closed, 'not even its owner may change it. A maintainer can change the rule.')
  }
  const careful = guarded.filter(({ rule }) => rule.owners === 'fast-forward')
  const deleted = careful.find(({ update }) => update.after === zeroId)
  if (deleted) throw refusal(deleted, 'it cannot be deleted.')
  const replaced = careful.filter(({ update }) => update.before !== zeroId)
  const requiring = guarded.filter(
    ({ update, rule }) => rule.requires.length > 0 && update.after !== zeroId,
  )
  const isForcePossible = replaced.length > 0 && !push.isFastForward
  if (!isForcePossible && requiring.length === 0) return
  const scopedGit = await openQuarantine(git, push)
  if (isForcePossible) {
    const pushed = await findForced(
      scopedGit,
      repository.path,
      replaced.map(({ update }) => update),
    )
    const forced = replaced.find((_, index) => pushed[index]?.forced)
    if (forced) throw refusal(forced, 'it cannot be forced, only moved forward.')
  }
  const commitOf = await peel(scopedGit, repository.path, requiring)
  for (const one of requiring) {
    const commit = commitOf(one.update.after)
    for (const file of one.rule.requires) {
      if (commit && (await hasSuccessfulRun(repository.id, commit, file))) continue
      throw runRequired(one, commit ?? one.update.after, file)
    }
  }
}

/** Returns a function that finds the commit of an update: a tag may point to one. */
async function peel(git: Git, directory: string, guarded: Guarded[]) {
  const names = [...new Set(guarded.map(({ update }) => `${update.after}^{commit}`))]
  const found = names.length > 0 ? await findObjects(git, directory, names) : new Map()
  return (id: string): string | undefined => found.get(`${id}^{commit}`)
}

function describe({ ref, rule: { pattern } }: Guarded): string {
  const { kind = 'branch', name = ref } = shortNameOf(ref) ?? {}
  return `The ${kind} "${name}" is protected by the rule "${pattern}"`
}

function refusal(one: Guarded, why: string): Problem {
  const code = one.rule.kind === 'branch' ? 'branch_protected' : 'tag_protected'
  return new Problem(code, `${describe(one)}: ${why}`)
}

function runRequired(one: Guarded, commit: string, file: string): Problem {
  return new Problem(
    'run_required',
    `${describe(one)}: the commit ${commit} needs a successful run of ${file} first. Push it to another branch, and ` +
      'push it here when its run has succeeded.',
  )
}
