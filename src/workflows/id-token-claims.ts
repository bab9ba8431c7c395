import type { Json } from '../base/json.ts'
import { Problem } from '../base/problem.ts'
import type { Database } from '../database/database.ts'
import type { IdTokens } from '../id-tokens/id-tokens.ts'
import {
  findRepositorySummary,
  type RepositorySummary,
} from '../repositories/repository-summary-store.ts'
import type { IssueIdToken } from './id-token-routes.ts'
import type { LiveJobToken } from './job-token-store.ts'
import { findIdTokenRequester } from './job-tokens.ts'
import { findRunById, type ListedRun, listAttempts } from './run-store.ts'

type Dependencies = { db: Database; idTokens: Pick<IdTokens, 'issue'> }

/** Issues ID tokens to jobs that asked for them with `id-token: write`. */
export function createIssueIdToken({ db, idTokens }: Dependencies): IssueIdToken {
  return async ({ id, claim = '' }, runId, audience) => {
    const requester = id === runId ? await findIdTokenRequester(db, claim) : undefined
    if (!requester) throw new Problem('run_not_found', 'This token is not one for ID tokens.')
    const [run, repository, [first]] = await Promise.all([
      findRunById(db, runId),
      findRepositorySummary(db, requester.repositoryId),
      listAttempts(db, runId),
    ])
    if (!run || !repository) throw new Problem('run_not_found', 'The run has ended.')
    const actor = first?.actorUsername ?? run.actorUsername
    return idTokens.issue(claimsOf({ run, repository, requester, actor }), audience)
  }
}

type Facts = {
  run: ListedRun
  repository: RepositorySummary
  requester: LiveJobToken
  actor: string
}

/** The claims that GitHub's ID tokens have. A name can be used again after a deletion; `repository_id` cannot. */
function claimsOf({ run, repository, requester, actor }: Facts): Record<string, Json> {
  const { ref, commitId: sha } = run
  const name = `${repository.ownerUsername}/${repository.name}`
  const refOf = (file: string) => `${name}/${file}@${ref}`
  return {
    sub: `repo:${repository.name}:ref:${ref}`,
    ref,
    ref_type: ref.startsWith('refs/tags/') ? 'tag' : 'branch',
    sha,
    repository: name,
    repository_id: repository.id,
    repository_owner: repository.ownerUsername,
    repository_visibility: 'private',
    run_id: run.id,
    run_number: String(run.number),
    run_attempt: String(run.attempt),
    actor,
    event_name: run.event,
    head_ref: '',
    base_ref: '',
    workflow: requester.workflow,
    workflow_ref: refOf(requester.file),
    workflow_sha: sha,
    job_workflow_ref: refOf(requester.jobFile),
    job_workflow_sha: sha,
    runner_environment: 'self-hosted',
  }
}
