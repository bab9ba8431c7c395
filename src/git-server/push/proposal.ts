import type { Principal } from '#access/principal.ts'
import { Problem } from '#base/problem.ts'
import type { Db } from '#database/schema.ts'
import type { Actor, Event } from '#events/events.ts'
import type { Git } from '#git/process/git-process.ts'
import type { PushRequest } from '#git/protocol/push-commands.ts'
import { proposalRefs, zeroId } from '#git/refs/ref-name.ts'
import { branchPrefix, type RefUpdate, readRefs } from '#git/refs/refs.ts'
import type { Protection } from '#repositories/protection-rules.ts'
import type { Repository } from '#repositories/repositories.ts'
import { readPushOptions } from './push-options.ts'

/** What a push to `refs/for/BRANCH` asks for, besides its update. */
export type ProposalOptions = {
  /** What identifies the change among those of the user and branch: `-o topic=NAME`. */
  topic: string | undefined
}

/** A commit that is proposed for a branch, read and found valid, but not stored. */
export type Proposal = {
  /** Who proposes it. */
  actor: Actor
  repository: Repository
  /** The full name of the branch. */
  target: string
  /** The branch whose pushes make further versions; empty for a proposal by a push. */
  source: string
  commitId: string
  /** The merge base with the branch. */
  baseId: string
  /** The tree of the commit. */
  treeId: string
  /** Who has pushed the commit, where that may be another user. */
  pushedBy?: Actor | undefined
  /** The change that it continues, where that is known. */
  number?: number | undefined
  /** What identifies the change among those of the user and branch; empty for nothing. */
  topic: string
  title: string
  description: string
}

/** The number of a change and of its version. */
export type VersionNumber = { number: number; version: number }

/** A change that a push lands: with the user who lands it, if that is not the pusher, and what the queue says of it. */
type LandedChange = VersionNumber & { by?: Actor | undefined; note?: string | undefined }

/** The changes that a push lands, all for one branch. */
export type Landing = { changes: LandedChange[] }

/** A push that has landed changes. */
type Landed = Landing & {
  actor: Actor
  repositoryId: string
  /** Null when the branch had the commits already. */
  pushId: string | null
  /** The commit that the branch is at now. */
  commit: string
  now: number
}

/** Finds which approvals the changes of a landing lack by a rule, in sentences; none when they have all. */
export type FindUnapproved = (
  repository: Pick<Repository, 'id' | 'path'>,
  landing: Landing,
  rule: Pick<Protection, 'approvals' | 'codeOwners'>,
) => Promise<string[]>

/** Where proposals become versions of changes. The lifecycle of pushes stores the commit. */
export type Proposals = {
  /** Reads what a push proposes; `git` sees its objects. Throws the Problems of a proposal. */
  read: (
    request: { principal: Principal; repository: Repository } & ProposalOptions,
    update: RefUpdate,
    git: Git,
  ) => Promise<Proposal>
  /**
   * The next version of the change that a proposal continues, or the first of a new one. Calls for a repository must not
   * overlap until the version is recorded. Throws the Problems of a proposal.
   */
  next: (db: Db, proposal: Proposal) => Promise<VersionNumber>
  /** Identifies the patches and messages of a proposal, wherever they are based; `git` sees its objects. */
  identify: (proposal: Proposal, git: Git) => Promise<string>
  /** Records a version with its event, in the transaction that makes it durable. */
  record: (tx: Db, proposal: Proposal, made: VersionNumber & { patchId: string }) => Promise<void>
  /** Records that a push has landed changes, in its transaction. Returns the events to publish with those of the push. */
  land: (tx: Db, landed: Landed) => Promise<Event[]>
  /** Makes versions of the changes that follow branches of a repository, after a push. Does not reject. */
  follow: (repository: Repository, actor: Actor) => Promise<void>
  /** Lines about a version for the client's terminal. */
  describe: (proposal: Proposal, made: VersionNumber) => string[]
}

/**
 * Reads whether a push is a proposal; undefined for any other. Throws `ref_name_refused` for one that deletes, or that
 * updates other refs, too.
 */
export function readProposal({
  updates,
  options,
}: Pick<PushRequest, 'updates' | 'options'>): ProposalOptions | undefined {
  const proposed = updates.find(({ ref }) => ref.startsWith(proposalRefs))
  if (!proposed) return undefined
  if (updates.length > 1) {
    const detail = `A push to ${proposed.ref} proposes a change and updates no other ref; push the others separately.`
    throw new Problem('ref_name_refused', detail)
  }
  if (proposed.after === zeroId) throw undeletableProposal(proposed.ref)
  const { topic, unknown } = readPushOptions(options)
  // It would propose a new change.
  if (unknown.some((option) => /^topic(?:=|$)/.test(option))) {
    const detail = 'A topic has 1 to 100 characters on one line: git push -o topic=NAME.'
    throw new Problem('update_refused', detail)
  }
  return { topic }
}

/** The Problem of a push that deletes a name to which changes are proposed. */
export function undeletableProposal(ref: string): Problem {
  const detail = `${ref} cannot be deleted: a push to it proposes a change. Abandon the change instead.`
  return new Problem('ref_name_refused', detail)
}

/** The branch that a push to a ref proposes a change for, and its tip. Throws `ref_not_found`. */
export async function readProposalTarget(
  directory: string,
  ref: string,
): Promise<{ target: string; tip: string }> {
  const branch = ref.slice(proposalRefs.length)
  const target = branchPrefix + branch
  const tip = (await readRefs(directory, [target])).get(target) ?? zeroId
  if (tip !== zeroId) return { target, tip }
  throw new Problem('ref_not_found', `There is no branch "${branch}" to propose a change for.`)
}
