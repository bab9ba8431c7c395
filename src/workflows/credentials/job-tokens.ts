import { randomBytes } from 'node:crypto'
import { runUsername } from '#access/names.ts'
import { isPermission, type Permission } from '#access/permissions.ts'
import type { Principal } from '#access/principal.ts'
import type { JobIdentity } from '#actions/workflow-engine/plan.ts'
import { permissionsOf } from '#actions/workflow-parser/job-permissions.ts'
import type { JobPermissions, Workflow } from '#actions/workflow-parser/workflow.ts'
import { Problem } from '#base/problem.ts'
import { hashToken } from '#base/token-string.ts'
import type { Database } from '#database/database.ts'
import type { Db, JobTokenRow } from '#database/schema.ts'
import { findJobToken, type LiveJobToken, replaceJobTokens } from '../job-token-store.ts'
import type { ListedRun } from '../run-store.ts'
import type { FindRunRights } from './run-rights.ts'

const runTokenPrefix = 'svcrun_'
const runTokenBytes = 24
/** The right of the tokens with which steps request ID tokens; they have no other. */
const idTokenRight = 'id-token'

/** Creates the token of a claim of a run, or one of its jobs. */
export function newRunToken(): string {
  return runTokenPrefix + randomBytes(runTokenBytes).toString('base64url')
}

/** Whether a token has the form of a run token. */
export function isRunToken(text: string): boolean {
  return text.startsWith(runTokenPrefix)
}

/** Creates the tokens of the jobs of a run for one claim of it; they end with this claim. */
export async function issueJobTokens(
  tx: Db,
  run: Pick<ListedRun, 'id' | 'grants' | 'awaitedBy' | 'isRestricted'>,
  { claim, serverUrl }: { claim: string; serverUrl: string },
): Promise<JobIdentity[]> {
  const rows: JobTokenRow[] = []
  const create = ({ file, workflow, jobFile }: JobGrant, rights: string) => {
    const token = newRunToken()
    const about = { runId: run.id, claim, file, workflow, jobFile, rights }
    rows.push({ tokenHash: hashToken(token), ...about })
    return token
  }
  // The commit is not on the branch yet, which an ID token would claim, and may never be; or it is of a stranger.
  const isReader = run.awaitedBy !== null || run.isRestricted === 1
  const url = `${serverUrl}/runner/runs/${run.id}/id-token?api-version=2.0`
  const identities = JSON.parse(run.grants).map((grant: JobGrant): JobIdentity => {
    const { file, jobFile, permissions } = grant
    const rights = rightsOf(permissions).filter((one) => !isReader || one.endsWith(':read'))
    const token = create(grant, rights.join(' '))
    const hasIdTokens = permissions.idToken && !isReader
    const idTokens = hasIdTokens ? { url, token: create(grant, idTokenRight) } : null
    return { file, jobFile, permissions, token, idTokens }
  })
  await replaceJobTokens(tx, run.id, rows)
  return identities
}

type Dependencies = { db: Database; findRunRights: FindRunRights }

/** Returns the principal of a token of a running run's jobs, by the hash of the token. */
export function createJobPrincipals({ db, findRunRights }: Dependencies) {
  return async (tokenHash: string): Promise<Principal | undefined> => {
    const found = await findJobToken(db, tokenHash)
    if (!found) return undefined
    const { runId: id, repositoryId, number, actorUsername, rights, isRestricted } = found
    // The holder of a token of a run, which is accepted where ID tokens are issued.
    if (rights === idTokenRight)
      return { kind: 'run', id, tokenHash, username: '', permissions: new Set() }
    const { permissions, refs } = await findRunRights(found, rights.split(' ').filter(isPermission))
    return {
      kind: 'job',
      id,
      tokenHash,
      username: runUsername(number),
      causedBy: actorUsername,
      permissions: new Set(permissions),
      repositories: new Set([repositoryId]),
      isRestricted: isRestricted === 1,
      refs,
    }
  }
}

/** Finds a token with which a job may request ID tokens; undefined for any other token. */
export async function findIdTokenRequester(
  db: Database,
  tokenHash: string,
): Promise<LiveJobToken | undefined> {
  const found = await findJobToken(db, tokenHash)
  return found?.rights === idTokenRight ? found : undefined
}

/** The permissions of a token by the scopes of GitHub. */
function rightsOf({ contents, actions }: JobPermissions): Permission[] {
  return [
    ...(contents === 'none' ? [] : (['repo:read'] as const)),
    ...(contents === 'write' ? (['repo:write'] as const) : []),
    ...(actions === 'none' ? [] : (['workflow:read'] as const)),
    ...(actions === 'write' ? (['workflow:trigger'] as const) : []),
  ]
}

/** Permissions that jobs of a run request: the file of the run, and the file of the jobs, which may be a called one. */
type JobGrant = {
  file: string
  /** The name of the workflow of the file. */
  workflow: string
  jobFile: string
  permissions: JobPermissions
}

// Each has a token, which is masked in all output.
const maxGrants = 200

/** Lists the different permissions of the jobs of a run. Throws `workflow_invalid` when there are very many. */
export function grantsOf(files: readonly Workflow[], called: readonly Workflow[]): JobGrant[] {
  const byPath = new Map([...called, ...files].map((one) => [one.path, one]))
  const grants = new Map<string, JobGrant>()
  const calls = new Set<string>()

  function visit(file: Workflow, current: Workflow, ofCaller: JobPermissions | undefined): void {
    for (const job of current.jobs) {
      if (grants.size + calls.size > maxGrants) throw tooMany()
      const permissions = permissionsOf(current, job, ofCaller)
      const jobFile = job.call?.path ?? current.path
      const key = JSON.stringify([file.path, jobFile, permissions])
      const callee = job.call && byPath.get(jobFile)
      if (callee && !calls.has(key)) {
        calls.add(key)
        visit(file, callee, permissions)
      }
      // PostgreSQL cannot store NUL.
      const workflow = file.name.replaceAll('\0', '\u{fffd}')
      if (!job.call) grants.set(key, { file: file.path, workflow, jobFile, permissions })
    }
  }

  for (const file of files) visit(file, file, undefined)
  return [...grants.values()]
}

function tooMany(): Problem {
  const detail = `The jobs of the run have more than ${maxGrants} different permissions.`
  return new Problem('workflow_invalid', detail)
}
