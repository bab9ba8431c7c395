import { isObjectId } from '#base/object-id.ts'
import { shellWord } from '#base/shell-word.ts'
import type { Db } from '#database/schema.ts'
import type {
  CandidateCommit,
  FindMissing,
  Missing,
  Requirement,
} from '#repositories/requirements.ts'
import { hasSuccessfulRun } from '../run-store.ts'
import { findNewestStatus } from './status-store.ts'

type WorkflowRequirement = Extract<Requirement, { workflow: string }>
type StatusRequirement = Extract<Requirement, { status: string }>

/** The one place that decides whether a commit meets a requirement of a protection. */
export function createFindMissing(db: Db): FindMissing {
  async function findMissingRun(
    { repository, commit, find }: CandidateCommit,
    { workflow, from }: WorkflowRequirement,
  ): Promise<Missing | undefined> {
    const of = `a successful run of ${workflow}`
    const what = from === undefined ? of : `${of} as it is at ${from}`
    if (from !== undefined && isObjectId(commit)) {
      const [wanted, own] = [`${from}:${workflow}`, `${commit}:${workflow}`]
      const found = await find([wanted, own])
      if (!found.has(wanted)) return { kind: 'file', what, how: `${from} has no such file.` }
      if (found.get(wanted) !== found.get(own))
        return {
          kind: 'file',
          what,
          how: `Its ${workflow} differs from that: take the one of ${from}, or change the rule first.`,
        }
    }
    const run = { repositoryId: repository.id, commit, file: workflow }
    return (await hasSuccessfulRun(db, run)) ? undefined : { kind: 'run', what, how: howToRun }
  }

  async function findMissingStatus(
    { repository, commit }: CandidateCommit,
    { status: context, by }: StatusRequirement,
  ): Promise<Missing | undefined> {
    const of = { repositoryId: repository.id, commitId: commit, context }
    const newest = await findNewestStatus(db, of, by)
    if (newest?.state === 'success') return undefined
    const present = newest === undefined ? '' : ` (${newest.username} has reported ${newest.state})`
    const id = isObjectId(commit) ? commit : 'COMMIT'
    const command = `svc statuses report ${repository.name} ${id} ${shellWord(context)} success`
    return {
      kind: 'status',
      failedAt: newest && newest.state !== 'pending' ? newest.createdAt : undefined,
      what: `the status "${context}" to be success, reported by ${by?.join(' or ') ?? 'any user'}${present}`,
      how: `Push it to another branch, where \`${command}\` reports the status, and here then; \`git push -o wait\` waits for no status.`,
    }
  }

  return (candidate, requirement) =>
    'status' in requirement
      ? findMissingStatus(candidate, requirement)
      : findMissingRun(candidate, requirement)
}

const howToRun =
  'Push it with `git push -o wait`, which runs it, or push it to another branch and here when its run has succeeded.'
