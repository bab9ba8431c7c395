import { Problem } from '#base/problem.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import type { RefUpdate } from '#git/refs/refs.ts'
import { type Protection, protectionsOf, shortNameOf } from '#repositories/protection-rules.ts'
import type { Repository } from '#repositories/repositories.ts'
import type { FindMissing, Missing, Requirement } from '#repositories/requirements.ts'
import type { Protections } from '#repositories/rights/protections.ts'
import type { FindUnapproved } from '../push/proposal.ts'
import type { Push } from '../push/push.ts'
import type { PushedHistory } from './pushed-history.ts'

/** What the rules about refs depend on. */
export type RefRules = {
  protections: Pick<Protections, 'listInForce'>
  findMissing: FindMissing
  findUnapproved: FindUnapproved
}

/** What the rules about refs depend on of a push. */
export type GuardedPush = Partial<Pick<Push, 'landing' | 'via'>> & {
  /** Whether it asks what keeps a change from the queue, which runs what is required. */
  isForQueue?: boolean
}

type Refusing = { history: PushedHistory; repository: Repository; push: GuardedPush }

/** An update with a protection of its ref, or of the ref that it moves. */
type Guarded = { update: RefUpdate; ref: string; rule: Protection }

/**
 * Checks a push against the protections of its refs. Throws the Problem of the first update that is not allowed:
 * `branch_protected`, `tag_protected`, `approval_required`, `run_required` or `status_required`.
 */
export async function refuseProtected(
  dependencies: RefRules,
  { history, repository, push }: Refusing,
  updates: RefUpdate[],
  targets: ReadonlyMap<string, string>,
): Promise<void> {
  const guarded = await findGuarded(dependencies, repository, updates, targets)
  if (guarded.length === 0) return
  const { landing } = push
  // There is nothing to propose a change for before an owner has created the branch.
  const reviewed = guarded.filter(
    ({ rule, update }) =>
      (rule.approvals > 0 || rule.codeOwners || rule.queue) && update.before !== zeroId,
  )
  const problems: Problem[] = []
  // What lands is refused with all that it lacks.
  const refuse = (problem: Problem) => {
    if (!landing) throw problem
    problems.push(problem)
  }
  // An undo restores what had landed before.
  for (const one of push.via === 'undo' ? [] : reviewed) {
    if (!landing) throw refusal(one, one.update.after === zeroId ? undeletable : changeRequired)
    const isQueued = push.via === 'queue' || push.isForQueue
    if (one.rule.queue && !isQueued) throw refusal(one, 'changes land on it through its queue.')
    const missing = await dependencies.findUnapproved(repository, landing, one.rule)
    if (missing.length > 0) refuse(approvalRequired(one, missing.join(' ')))
  }
  // What lands with its approvals need not be pushed by an owner.
  const others = landing ? guarded.filter((one) => !reviewed.includes(one)) : guarded
  const [first] = others
  if (first && !repository.asOwner)
    refuse(refusal(first, 'only the owner of the repository or an admin may change it.'))
  refuseClosed(others, refuse)
  await refuseOwner(dependencies, { history, repository, push, refuse }, guarded)
  const [problem] = problems
  if (!problem) return
  const details = new Set(problems.map(({ message }) => message))
  throw new Problem(problem.code, [...details].join(' '), { cause: problems })
}

type Refuse = (problem: Problem) => void

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

function refuseClosed(guarded: Guarded[], refuse: Refuse): void {
  const closed = guarded.find(({ rule }) => rule.owners === 'none')
  if (!closed) return
  const of = closed.rule.namespace === null ? '' : ' of the namespace'
  refuse(
    refusal(closed, `not even its owner may change it. A maintainer${of} can change the rule.`),
  )
}

async function refuseOwner(
  { findMissing }: RefRules,
  { history, repository, push, refuse }: Refusing & { refuse: Refuse },
  guarded: Guarded[],
): Promise<void> {
  const careful = guarded.filter(({ rule }) => rule.owners === 'fast-forward')
  const deleted = careful.find(({ update }) => update.after === zeroId)
  if (deleted) refuse(refusal(deleted, 'it cannot be deleted.'))
  const replaced = careful.filter(({ update }) => update.before !== zeroId)
  const requiring = guarded.filter(
    ({ update, rule }) => rule.requires.length > 0 && update.after !== zeroId && !push.isForQueue,
  )
  const forced = await history.findForced(replaced.map(({ update }) => update))
  const refused = replaced.find((_, index) => forced[index])
  if (refused) refuse(refusal(refused, 'it cannot be forced, only moved forward.'))
  const commits = await history.commitsOf(requiring.map(({ update }) => update.after))
  for (const one of requiring) {
    const commit = commits.get(one.update.after) ?? one.update.after
    const candidate = { repository, commit, find: history.find }
    const missing: Missing[] = []
    for (const requirement of one.rule.requires)
      missing.push(...[(await findMissing(candidate, requirement)) ?? []].flat())
    if (missing.length > 0) refuse(requirementsRefusal(one, commit, missing))
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

const undeletable = 'it cannot be deleted while only changes land on it.'
const changeRequired = 'only changes land on it. Propose one: git push origin HEAD:refs/for/BRANCH'

function approvalRequired(one: Guarded, missing: string): Problem {
  return new Problem('approval_required', `${describe(one)}: ${missing}`)
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
