import type { CommitSummary } from '#git/objects/commit-object.ts'
import {
  type About,
  type Payload,
  toCommon,
  toIds,
  toIso,
  toPayloadRepository,
  toUser,
  urlOf,
} from './about.ts'
import { toHeadCommit } from './commits.ts'

/** A run in the state of an event. */
type Run = {
  id: string
  number: number
  attempt: number
  name: string
  branch: string
  commit: string
  event: string
  files: string[]
  conclusion: string | null
  createdAt: number
  queuedAt: number
  startedAt: number | null
}

type ReportedRun = {
  action: 'queued' | 'running' | 'completed'
  run: Run
  head: CommitSummary | undefined
  /** When the run reached this state. */
  at: number
}

// GitHub's names of the action and of the status after it.
const statuses = {
  queued: { action: 'requested', status: 'queued' },
  running: { action: 'in_progress', status: 'in_progress' },
  completed: { action: 'completed', status: 'completed' },
}

/** The payload of a `workflow_run`, for a run that has reached a new state. */
export function workflowRunPayload({ action, run, head, at }: ReportedRun, about: About): Payload {
  const { repository } = about
  const workflows = `${urlOf(about)}/workflows`
  const url = `${workflows}/${run.id}`
  const [path = ''] = run.files
  const file = toIds(`${repository.id} ${path}`)
  const named = { name: run.name, path }
  const common = toCommon(about)
  return {
    action: statuses[action].action,
    workflow_run: {
      ...toIds(run.id),
      ...named,
      display_title: run.name,
      head_branch: run.branch,
      head_sha: run.commit,
      run_number: run.number,
      run_attempt: run.attempt,
      event: run.event,
      status: statuses[action].status,
      conclusion: run.conclusion,
      workflow_id: file.id,
      created_at: toIso(run.createdAt),
      updated_at: toIso(at),
      run_started_at: toIso(run.startedAt ?? run.queuedAt),
      url,
      html_url: url,
      logs_url: `${url}/logs`,
      cancel_url: `${url}/cancel`,
      rerun_url: `${url}/rerun`,
      workflow_url: workflows,
      pull_requests: [],
      referenced_workflows: [],
      head_commit: head ? toHeadCommit(head) : null,
      actor: toUser(about.sender),
      triggering_actor: toUser(about.sender),
      repository: toPayloadRepository(about),
      head_repository: toPayloadRepository(about),
    },
    workflow: {
      ...file,
      ...named,
      state: 'active',
      created_at: toIso(repository.createdAt),
      updated_at: toIso(repository.createdAt),
      url: workflows,
      html_url: workflows,
    },
    ...common,
  }
}
