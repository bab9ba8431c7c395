import { formatRule, type HostRule, intersectRules } from '#base/outbound/host-rules.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { isSamePermissions, permissionsOf } from '../../workflow-parser/job-permissions.ts'
import type { Job, JobPermissions, Workflow } from '../../workflow-parser/workflow.ts'
import { type Contexts, listedSecrets, stepSecrets, workflowContexts } from '../contexts.ts'
import type { JobIdentity, Plan } from '../plan.ts'

/** A workflow that runs: a file of the run, or one that a job calls. */
export type RunningWorkflow = {
  workflow: Workflow
  /** The file of the run under which its jobs are reported. */
  file: Pick<Workflow, 'path' | 'name'>
  /** The jobs that call it, outermost first. */
  callers: readonly { id: string; name: string }[]
  /** The contexts that all its jobs share. */
  contexts: Contexts
  /** The secrets for its steps, and those that it passes on with `secrets: inherit`. */
  secrets: Record<string, string>
  inheritable: Record<string, string>
  /** The permissions of the calling job; undefined for a file of the run. */
  permissions: JobPermissions | undefined
  /** The hosts to which the jobs that call it are limited, if they are. */
  callerNetwork: readonly HostRule[] | undefined
}

export function openWorkflow(plan: Plan, workflow: Workflow): RunningWorkflow {
  return {
    workflow,
    file: workflow,
    callers: [],
    contexts: workflowContexts(plan, workflow),
    secrets: stepSecrets(plan, plan.secrets, workflow),
    inheritable: listedSecrets(plan.secrets, workflow),
    permissions: undefined,
    callerNetwork: undefined,
  }
}

/** The credentials of a job; undefined where a run has none. */
export function identityOf(
  { identities }: Plan,
  { file, workflow, permissions }: RunningWorkflow,
  job: Job,
): JobIdentity | undefined {
  const held = permissionsOf(workflow, job, permissions)
  return identities.find(
    (one) =>
      one.file === file.path &&
      one.jobFile === workflow.path &&
      isSamePermissions(one.permissions, held),
  )
}

/** The hosts that a job requests; a called workflow gets at most those of its caller. Undefined for no limit. */
export function jobNetworkOf(
  { workflow, callerNetwork }: RunningWorkflow,
  job: Job,
): readonly HostRule[] | undefined {
  const own = job.network ?? workflow.network
  return own && callerNetwork ? intersectRules(own, callerNetwork) : (own ?? callerNetwork)
}

/** The id of a job in the run: `caller/job` in a workflow that a job calls. */
export function jobIdIn({ callers }: RunningWorkflow, id: string): string {
  return [...callers.map((caller) => caller.id), id].join('/')
}

/** The name of a job in the run: `caller / job` in a workflow that a job calls. */
export function jobNameIn({ callers }: RunningWorkflow, name: string): string {
  return [...callers.map((caller) => caller.name), name].join(' / ')
}

/** The network of the steps of a job. */
export type JobNetworkAccess = {
  /** The hosts that they may reach through the proxy; `default` is what the sandbox has without a proxy. */
  hosts: readonly HostRule[] | 'none' | 'default'
  /** A line for the log of each step; undefined where the first line of the run's log says it. */
  line: string | undefined
}

const shownCount = 20

/**
 * Decides about the network of a job. `wanted` are the hosts of its `network`, empty for none: they narrow what the
 * administrator of the runner allows. Without `network`, a job has all of that.
 */
export function networkAccessOf(
  { isolation, hosts }: Pick<Sandbox, 'isolation' | 'hosts'>,
  wanted: readonly HostRule[] | undefined,
): JobNetworkAccess {
  const { kind, network } = isolation
  if (wanted === undefined && network !== 'hosts') return { hosts: 'default', line: undefined }
  if (kind === 'none') {
    const line =
      'Network: all that the machine of the runner has. `network` has no effect, because there is no sandbox.'
    return { hosts: 'default', line: wanted && line }
  }
  if (wanted?.length === 0) return { hosts: 'none', line: 'Network: none, as the workflow says.' }
  const allowed = toAllowed({ network, hosts }, wanted)
  const missing = wanted?.filter((rule) => intersectRules([rule], allowed).length === 0) ?? []
  const note =
    missing.length > 0 ? ` SVC_STEP_HOSTS of the runner does not allow ${toText(missing)}.` : ''
  if (allowed.length === 0) return { hosts: 'none', line: `Network: none.${note}` }
  return { hosts: allowed, line: `Network: ${toText(allowed)}, through a proxy.${note}` }
}

function toAllowed(
  { network, hosts }: { network: Sandbox['isolation']['network']; hosts: Sandbox['hosts'] },
  wanted: readonly HostRule[] | undefined,
): readonly HostRule[] {
  if (wanted === undefined) return hosts
  return network === 'full' ? wanted : intersectRules(wanted, hosts)
}

function toText(rules: readonly HostRule[]): string {
  const shown = rules.slice(0, shownCount).map(formatRule).join(', ')
  const more = rules.length - shownCount
  return more > 0 ? `${shown} and ${more} more` : shown
}
