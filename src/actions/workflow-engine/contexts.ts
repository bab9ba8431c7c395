import type { Json } from '#base/json.ts'
import { fullNameOf, fullOwnerOf } from '#base/repository-name.ts'
import { shortRef } from '#base/short-ref.ts'
import type { Workspace } from '../sandbox/sandbox.ts'
import type { Toolset } from '../tool-cache/toolset.ts'
import type { Scope } from '../workflow-parser/expressions/scope.ts'
import { namedSecrets } from '../workflow-parser/named-secrets.ts'
import type { Workflow } from '../workflow-parser/workflow.ts'
import type { JobIdentity, Plan } from './plan.ts'

/** A runner: its name, its labels, and the PATH, the tools and the variables in its workspaces. */
export type RunnerContext = {
  name: string
  labels: readonly string[]
  /** Variables of all steps. */
  env: Record<string, string>
  /** `X64` or `ARM64`. */
  arch: string
  path: string
  tools: Toolset
}

export type Contexts = Record<string, Json>

const noStatus: Scope['status'] = { success: true, failure: false, cancelled: false }

/** A scope without access to files: hashFiles() is empty. */
export function scopeOf(contexts: Contexts, status: Scope['status'] = noStatus): Scope {
  return { contexts, status, hashFiles: () => '' }
}

/** The contexts that all jobs of a file share. */
export function workflowContexts(plan: Plan, workflow: Workflow): Contexts {
  return {
    github: githubContext(plan, workflow),
    inputs: { ...plan.inputs },
    vars: {},
    secrets: stepSecrets(plan, plan.secrets, workflow),
  }
}

/** Adds the token of a job to the shared contexts. Unlike secrets, it is no variable of steps. */
export function withToken(shared: Contexts, identity: JobIdentity | undefined): Contexts {
  if (!identity) return shared
  const { token } = identity
  // Both are objects.
  const { github, secrets } = shared as Record<'github' | 'secrets', Record<string, Json>>
  return { ...shared, github: { ...github, token }, secrets: { ...secrets, GITHUB_TOKEN: token } }
}

/** The secrets that a file can pass on: of those given, the ones in its list, if it has one. */
export function listedSecrets(
  given: Record<string, string>,
  { secrets }: Workflow,
): Record<string, string> {
  return Array.isArray(secrets) ? pick(given, secrets) : given
}

/** The secrets for the steps of a file: the listed ones, all with `inherit`, or else those that its text names. */
export function stepSecrets(
  { files, called }: Plan,
  given: Record<string, string>,
  workflow: Workflow,
): Record<string, string> {
  const listed = listedSecrets(given, workflow)
  if (workflow.secrets !== undefined) return listed
  const { text = '' } = [...files, ...called].find(({ path }) => path === workflow.path) ?? {}
  return pick(listed, namedSecrets(text, Object.keys(listed)))
}

function pick(secrets: Record<string, string>, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(Object.entries(secrets).filter(([name]) => names.includes(name)))
}

/** The `runner` context of a job. */
export function runnerContext(
  { name, arch, tools }: RunnerContext,
  workspace: Workspace,
): Record<string, Json> {
  const { temp, home } = workspace.inside
  return {
    name,
    os: 'Linux',
    arch,
    temp,
    tool_cache: tools.folders[0] ?? `${home}/tools`,
    environment: 'self-hosted',
    debug: '',
  }
}

/** The architecture of this machine in GitHub's spelling. */
export function toRunnerArchitecture(): string {
  const names: Record<string, string> = { x64: 'X64', arm64: 'ARM64', arm: 'ARM', ia32: 'X86' }
  return names[process.arch] ?? process.arch
}

/** The short name of a ref: `main` for `refs/heads/main`. */
export function nameOfRef(ref: string): { type: 'branch' | 'tag'; name: string } {
  const isTag = ref.startsWith('refs/tags/')
  return { type: isTag ? 'tag' : 'branch', name: shortRef(ref) }
}

/** The branches of a `pull_request` by their short names; empty for other events, as on GitHub. */
export function proposedRefs({ event, payload }: Pick<Plan, 'event' | 'payload'>) {
  if (event !== 'pull_request') return { head_ref: '', base_ref: '' }
  const proposed: unknown = payload.pull_request
  const nameOf = (side: 'head' | 'base') => String(at(at(proposed, side), 'ref') ?? '')
  return { head_ref: nameOf('head'), base_ref: nameOf('base') }
}

function at(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, key) : undefined
}

function githubContext(plan: Plan, workflow: Workflow): Record<string, Json> {
  const repository = fullNameOf(plan.repository)
  const { type, name } = nameOfRef(plan.ref)
  return {
    sha: plan.commit,
    ref: plan.ref,
    ref_name: name,
    ref_type: type,
    ref_protected: false,
    ...proposedRefs(plan),
    event_name: plan.event,
    event: plan.payload,
    actor: plan.actor,
    triggering_actor: plan.triggeringActor,
    repository,
    repository_owner: fullOwnerOf(plan.repository),
    repositoryUrl: `${plan.serverUrl}/repos/${plan.repository.name}.git`,
    run_id: plan.runId,
    run_number: String(plan.number),
    run_attempt: String(plan.attempt),
    workflow: workflow.name,
    workflow_ref: `${repository}/${workflow.path}@${plan.ref}`,
    workflow_sha: plan.commit,
    server_url: plan.serverUrl,
    api_url: plan.serverUrl,
    secret_source: 'Actions',
    token: '',
  }
}

const debugSecret = 'ACTIONS_STEP_DEBUG'

/** Whether a secret requests the lines of `::debug::` in the log, as on GitHub. */
export function isDebugging({ secrets }: Pick<Plan, 'secrets'>): boolean {
  return secrets[debugSecret] === 'true'
}

/** The values to mask: `true` as the value of that secret is none. */
export function secretValues(plan: Pick<Plan, 'secrets'>): string[] {
  return Object.entries(plan.secrets)
    .filter(([name]) => name !== debugSecret || !isDebugging(plan))
    .map(([, value]) => value)
}
