import { Problem } from '#base/problem.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import type { RefUpdate } from '#git/refs/refs.ts'
import { type Protection, protectionsOf, shortNameOf } from '#repositories/protection-rules.ts'
import type { Repository } from '#repositories/repositories.ts'
import type { FindMissing, Missing, Requirement } from '#repositories/requirements.ts'
import type { Protections } from '#repositories/rights/protections.ts'
import type { PushedHistory } from './pushed-history.ts'

/** What the rules about refs depend on. */
export type RefRules = {
  protections: Pick<Protections, 'listInForce'>
  findMissing: FindMissing
}

/** An update with a protection of its ref, or of the ref that it moves. */
type Guarded = { update: RefUpdate; ref: string; rule: Protection }

/**
 * Checks a push against the protections of its refs. Throws the Problem of the first update that is not allowed:
 * `branch_protected`, `tag_protected`, `run_required` or `status_required`.
 */
export async function refuseProtected(
  dependencies: RefRules,
  history: PushedHistory,
  repository: Repository,
  updates: RefUpdate[],
  targets: ReadonlyMap<string, string>,
): Promise<void> {
  const guarded = await findGuarded(dependencies, repository, updates, targets)
  const [first] = guarded
  if (!first) return
  if (!repository.asOwner)
    throw refusal(first, 'only the owner of the repository or an admin may change it.')
  await refuseOwner(dependencies, history, repository, guarded)
}

/** What the protections of updated refs require, by the ref of the update. */
export async function findRequired(
  dependencies: Pick<RefRules, 'protections'>,
  repository: Repository,
  updates: RefUpdate[],
  targets: ReadonlyMap<string, string>,
): Promise<Map<string, Requirement[]>> {
  const guarded = await findGuarded(dependencies, repository, updates, targets)
  const required = new Map<string, Requirement[]>()
  for (const { update, rule } of guarded) {
    if (rule.requires.length === 0) continue
    required.set(update.ref, [...(required.get(update.ref) ?? []), ...rule.requires])
  }
  return required
}

async function findGuarded(
  { protections }: Pick<RefRules, 'protections'>,
  repository: Repository,
  updates: RefUpdate[],
  targets: ReadonlyMap<string, string>,
): Promise<Guarded[]> {
  const all = await protections.listInForce(repository)
  if (all.length === 0) return []
  return updates.flatMap((update) =>
    [...new Set([update.ref, targets.get(update.ref) ?? update.ref])].flatMap((ref) =>
      protectionsOf(ref, all).map((rule) => ({ update, ref, rule })),
    ),
  )
}

async function refuseOwner(
  { findMissing }: RefRules,
  history: PushedHistory,
  repository: Repository,
  guarded: Guarded[],
): Promise<void> {
  const closed = guarded.find(({ rule }) => rule.owners === 'none')
  if (closed) {
    const of = closed.rule.namespace === null ? '' : ' of the namespace'
    throw refusal(
      closed,
      `not even its owner may change it. A maintainer${of} can change the rule.`,
    )
  }
  const careful = guarded.filter(({ rule }) => rule.owners === 'fast-forward')
  const deleted = careful.find(({ update }) => update.after === zeroId)
  if (deleted) throw refusal(deleted, 'it cannot be deleted.')
  const replaced = careful.filter(({ update }) => update.before !== zeroId)
  const requiring = guarded.filter(
    ({ update, rule }) => rule.requires.length > 0 && update.after !== zeroId,
  )
  const forced = await history.findForced(replaced.map(({ update }) => update))
  const refused = replaced.find((_, index) => forced[index])
  if (refused) throw refusal(refused, 'it cannot be forced, only moved forward.')
  const commits = await history.commitsOf(requiring.map(({ update }) => update.after))
  for (const one of requiring) {
    const commit = commits.get(one.update.after) ?? one.update.after
    const candidate = { repository, commit, find: history.find }
    const missing: Missing[] = []
    for (const requirement of one.rule.requires)
      missing.push(...[(await findMissing(candidate, requirement)) ?? []].flat())
    if (missing.length > 0) throw requirementsRefusal(one, commit, missing)
  }
}

function describe({ ref, rule: { pattern, namespace } }: Guarded): string {
  const { kind = 'branch', name = ref } = shortNameOf(ref) ?? {}
  return `The ${kind} "${name}" is protected by the rule "${pattern}"${namespace === null ? '' : ` of the namespace "${namespace}"`}`
}

function refusal(one: Guarded, why: string): Problem {
  const code = one.rule.kind === 'branch' ? 'branch_protected' : 'tag_protected'
  return new Problem(code, `${describe(one)}: ${why}`)
}

function requirementsRefusal(one: Guarded, commit: string, missing: Missing[]): Problem {
  const isRun = missing.some(({ kind }) => kind !== 'status')
  const needs = missing.map(({ what }) => what).join(', and ')
  const ways = [...new Set(missing.map(({ how }) => how))].join(' ')
  return new Problem(
    isRun ? 'run_required' : 'status_required',
    `${describe(one)}: the commit ${commit} needs ${needs} first. ${ways}`,
  )
}
