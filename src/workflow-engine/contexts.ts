import type { Workspace } from '../sandbox/sandbox.ts'
import type { Json, Scope } from '../workflow-parser/scope.ts'
import type { Workflow } from '../workflow-parser/workflow.ts'
import type { Plan } from './plan.ts'

/** What a runner is called, which labels its jobs may ask for, and where programs are found in its rooms. */
export type RunnerContext = { name: string; labels: readonly string[]; arch: string; path: string }

export type Contexts = Record<string, Json>

const noStatus: Scope['status'] = { success: true, failure: false, cancelled: false }

/** A scope where no file can be looked at. */
export function scopeOf(contexts: Contexts, status: Scope['status'] = noStatus): Scope {
  return { contexts, status, hashFiles: () => '' }
}

/** What all jobs of a file have in common. */
export function workflowContexts(plan: Plan, workflow: Workflow): Contexts {
  return {
    github: githubContext(plan, workflow),
    inputs: { ...plan.inputs },
    vars: {},
    secrets: allowedSecrets(plan, workflow),
  }
}

/** The secrets that steps of a file get: all, or those that it names. */
export function allowedSecrets(plan: Plan, workflow: Workflow): Record<string, string> {
  const { secrets } = workflow
  const entries = Object.entries(plan.secrets)
  return Object.fromEntries(secrets ? entries.filter(([name]) => secrets.includes(name)) : entries)
}

/** What is `runner` in a room. */
export function runnerContext(
  { name, arch }: RunnerContext,
  room: Workspace,
): Record<string, Json> {
  const { temp, home } = room.inside
  return {
    name,
    os: 'Linux',
    arch: arch === 'arm64' ? 'ARM64' : 'X64',
    temp,
    tool_cache: `${home}/tools`,
    environment: 'self-hosted',
    debug: '',
  }
}

/** `main` of `refs/heads/main`. */
export function nameOfRef(ref: string): { type: 'branch' | 'tag'; name: string } {
  const isTag = ref.startsWith('refs/tags/')
  return { type: isTag ? 'tag' : 'branch', name: ref.replace(/^refs\/(heads|tags)\//, '') }
}

function githubContext(plan: Plan, workflow: Workflow): Record<string, Json> {
  const repository = `${plan.repository.owner}/${plan.repository.name}`
  const { type, name } = nameOfRef(plan.ref)
  return {
    sha: plan.commit,
    ref: plan.ref,
    ref_name: name,
    ref_type: type,
    ref_protected: false,
    head_ref: '',
    base_ref: '',
    event_name: plan.event,
    event: plan.payload,
    actor: plan.actor,
    triggering_actor: plan.triggeringActor,
    repository,
    repository_owner: plan.repository.owner,
    repositoryUrl: `${plan.serverUrl}/repos/${plan.repository.name}.git`,
    run_id: plan.runId,
    run_number: String(plan.number),
    run_attempt: String(plan.attempt),
    workflow: workflow.name,
    workflow_ref: `${repository}/${workflow.path}@${plan.ref}`,
    workflow_sha: plan.commit,
    server_url: plan.serverUrl,
    api_url: plan.serverUrl,
    token: '',
  }
}
