import { isRunUsername } from '#access/names.ts'
import { workflowsFolder } from '#actions/workflow-parser/workflow-folders.ts'
import type { Database } from '#database/database.ts'
import type { Actor } from '#events/events.ts'
import type { ObjectPool } from '#git/objects/object-pool.ts'
import type { Git } from '#git/process/git-process.ts'
import { versionName } from '#git/refs/ref-name.ts'
import type { Repositories } from '#repositories/repositories.ts'
import { findRepositorySummary } from '#repositories/repository-summary-store.ts'
import type { FindPushRight } from '../credentials/run-rights.ts'
import type { Restriction } from './create-run.ts'
import type { EndedVersions } from './enqueue-run.ts'
import type { PlanCandidate } from './plan-candidate.ts'
import type { PlannedRun } from './planned-runs.ts'
import { findProposedVersion, hasLandedChange } from './proposed-version-store.ts'

type Dependencies = {
  db: Database
  git: Git
  pool: Pick<ObjectPool, 'of'>
  planCandidate: PlanCandidate
  findPushRight: FindPushRight
  repositories: Pick<Repositories, 'roleOfUser'>
  directoryOf: (repositoryId: string) => Promise<string>
}

/** The data of an event about a change, as far as it matters here. */
type ChangeEvent = {
  kind: string
  repositoryId: string
  actor: Actor
  data: { number: number; version?: number; changed?: string[]; state?: string }
}

/** Of a restricted version. Each may make a failed run when the queue is full, with events and deliveries. */
const maxRestrictedFiles = 50

/** The effects of an event about a change on runs. */
type PlannedVersion = { planned: PlannedRun[]; ended?: EndedVersions }

export const changeKinds = [
  'change.opened',
  'change.version_added',
  'change.updated',
  'change.landed',
] as const

/** Returns a function that plans the runs of versions of changes, and ends those of older versions and closed changes. */
export function createPlanVersion(dependencies: Dependencies) {
  const { db, git, pool, planCandidate, findPushRight, repositories, directoryOf } = dependencies

  // The rights count at the moment that the run is created. Nothing widens them later.
  async function restrictionOf(
    repositoryId: string,
    { id, username }: Actor,
  ): Promise<Restriction | undefined> {
    const right = await findPushRight({ repositoryId, actorId: id })
    if (right === 'push') return undefined
    const isKnown = right === 'of-user' || (await hasLandedChange(db, { repositoryId, username }))
    return { needsApproval: !isKnown }
  }

  /** The same for the user of a change whose versions others make, by pushes to its branch: there is no token of it. */
  async function restrictionOfUser(
    repositoryId: string,
    username: string,
  ): Promise<Restriction | undefined> {
    const role = await repositories.roleOfUser(username, repositoryId)
    if (role !== undefined && role !== 'read') return undefined
    return { needsApproval: !(await hasLandedChange(db, { repositoryId, username })) }
  }

  return async ({ kind, repositoryId, actor, data }: ChangeEvent): Promise<PlannedVersion> => {
    const { number, version: eventVersion } = data
    const hasNewState = data.changed?.includes('state') === true
    const isReopened = hasNewState && data.state === 'open'
    if (kind === 'change.landed')
      return { planned: [], ended: { repositoryId, number, onlyUnapproved: true } }
    if (kind === 'change.updated' && !isReopened)
      return { planned: [], ...(hasNewState && { ended: { repositoryId, number } }) }
    const repository = await findRepositorySummary(db, repositoryId)
    const version = await findProposedVersion(db, { repositoryId, number, version: eventVersion })
    if (!repository || !version) return { planned: [] }
    const ended = { repositoryId, number, before: version.version }
    // As for pushes, a run starts no other one.
    if ([version.username, actor.username].some(isRunUsername)) return { planned: [], ended }
    const directory = await directoryOf(repositoryId)
    const { title, description, proposer, source, createdAt } = version
    const pusher = { id: version.actorId, username: version.username }
    // Who opens a change of a branch, or reopens one, may be another user than has made the version.
    const isOfOther = ![pusher.username, actor.username].includes(proposer)
    const restriction =
      (await restrictionOf(repositoryId, pusher)) ??
      (await restrictionOf(repositoryId, actor)) ??
      (isOfOther ? await restrictionOfUser(repositoryId, proposer) : undefined)
    const planned = await planCandidate({
      ...{ repository, directory, git, objects: pool.of(directory) },
      event: 'pull_request',
      action: isReopened ? 'reopened' : version.version === 1 ? 'opened' : 'synchronize',
      change: { number, title, description, username: proposer, source, createdAt },
      ref: versionName(version),
      target: version.target,
      commit: version.commitId,
      base: version.baseId,
      actor: pusher,
      restriction,
    })
    const isExcessive = restriction !== undefined && planned.length > maxRestrictedFiles
    return { planned: isExcessive ? [failAll(planned)] : planned, ended }
  }
}

/** One failed run in place of very many. */
function failAll(planned: readonly PlannedRun[]): PlannedRun {
  const [first] = planned
  if (!first) throw new Error('nothing is planned')
  const { files: _, ...fields } =
    'failed' in first ? first.failed : { ...first.start, files: [], fault: '' }
  const fault = `A change of a user who may not push starts at most ${maxRestrictedFiles} workflow files; this one has ${planned.length}.`
  return { failed: { ...fields, files: [workflowsFolder], fault } }
}
