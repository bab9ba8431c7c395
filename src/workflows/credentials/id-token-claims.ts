import { type Static, Type } from 'typebox'
import { runUsername } from '#access/names.ts'
import type { Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import { Problem } from '#base/problem.ts'
import { fullNameOf, fullOwnerOf } from '#base/repository-name.ts'
import type { Database } from '#database/database.ts'
import { recordActions } from '#events/audit/record.ts'
import { named } from '#http/named-schemas.ts'
import { route } from '#http/route.ts'
import {
  findRepositorySummary,
  type RepositorySummary,
} from '#repositories/repository-summary-store.ts'
import type { IdTokens } from '../id-tokens/id-tokens.ts'
import type { LiveJobToken } from '../job-token-store.ts'
import { findRunById, type ListedRun, listRunAttempts } from '../run-store.ts'
import { findIdTokenRequester } from './job-tokens.ts'
import type { IsCauseLive } from './run-rights.ts'

type Dependencies = {
  db: Database
  idTokens: Pick<IdTokens, 'issue'>
  isCauseLive: IsCauseLive
  clock: Clock
}

/** Issues ID tokens to jobs that asked for them with `id-token: write`. The audit log has each, before its job does. */
export function createIssueIdToken(dependencies: Dependencies): IssueIdToken {
  const { db, idTokens, isCauseLive, clock } = dependencies

  return async ({ id, tokenHash = '', origin }, runId, audience) => {
    const requester = id === runId ? await findIdTokenRequester(db, tokenHash) : undefined
    if (!requester) throw new Problem('run_not_found', 'This token is not one for ID tokens.')
    if (!(await isCauseLive(requester))) throw causeLost()
    const [run, repository, [first]] = await Promise.all([
      findRunById(db, runId),
      findRepositorySummary(db, requester.repositoryId),
      listRunAttempts(db, runId),
    ])
    if (!run || !repository) throw new Problem('run_not_found', 'The run has ended.')
    const actor = first?.actorUsername ?? run.actorUsername
    const claims = claimsOf({ run, repository, requester, actor })
    const token = await idTokens.issue(claims, audience)
    const { sub: subject } = claims
    const data = { runId, attempt: run.attempt, file: requester.jobFile, subject }
    const action = {
      action: 'id_token.issued' as const,
      actor: { id: runId, username: runUsername(run.number), origin },
      repositoryId: repository.id,
      data: { ...data, audience: audience ?? null },
    }
    await db.transaction().execute((tx) => recordActions(tx, clock.now(), [action]))
    return token
  }
}

function causeLost(): Problem {
  const detail =
    'A token or key that caused this run was deleted or has expired, or its user may no longer change the repository.'
  return new Problem('permission_missing', detail)
}

type Facts = {
  run: ListedRun
  repository: RepositorySummary
  requester: LiveJobToken
  actor: string
}

/** The claims that GitHub's ID tokens have. Another repository can get the name; none gets the id, so `sub` has both. */
function claimsOf({ run, repository, requester, actor }: Facts) {
  const { ref, commitId: sha } = run
  const named = { name: repository.name, owner: repository.ownerUsername }
  const name = fullNameOf(named)
  const refOf = (file: string) => `${name}/${file}@${ref}`
  return {
    sub: `repo:${name}@${repository.id}:ref:${ref}`,
    ref,
    ref_type: ref.startsWith('refs/tags/') ? 'tag' : 'branch',
    sha,
    repository: name,
    repository_id: repository.id,
    repository_owner: fullOwnerOf(named),
    repository_visibility: repository.visibility,
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

/** Issues an ID token to the holder of a token for that, for an audience. Throws `run_not_found`. */
type IssueIdToken = (
  principal: Principal,
  runId: string,
  audience: string | undefined,
) => Promise<string>

/** The route of ID tokens, as the client of GitHub's toolkit calls it. */
export function idTokenRoutes(issue: IssueIdToken) {
  return [
    route('GET', '/runner/runs/:id/id-token', {
      operationId: 'getIdToken',
      tag: 'runners',
      summary: 'Get an ID token of a job',
      description:
        'For steps of a job with `permissions: id-token: write`, which find the address and the token for it in ' +
        '`ACTIONS_ID_TOKEN_REQUEST_URL` and `ACTIONS_ID_TOKEN_REQUEST_TOKEN`.',
      permission: 'run',
      query: Type.Object({
        audience: Type.Optional(
          Type.String({
            description: 'the `aud` of the token; by default the address of the service',
            minLength: 1,
            maxLength: 1000,
          }),
        ),
        'api-version': Type.Optional(
          Type.String({ description: 'ignored: clients of GitHub send it', maxLength: 20 }),
        ),
      }),
      reply: { 200: IdToken },
      problems: ['run_not_found', 'encryption_key_missing'],
      handle: async ({ principal, params, query }): Promise<Static<typeof IdToken>> => ({
        value: await issue(principal, params.id, query.audience),
      }),
    }),
  ]
}

const IdToken = named(
  'IdToken',
  Type.Object({ value: Type.String({ description: 'a JSON Web Token (RFC 7519)' }) }),
)
