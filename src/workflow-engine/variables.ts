import type { Json } from '../workflow-parser/scope.ts'
import { nameOfRef } from './contexts.ts'
import type { Plan } from './plan.ts'

/** Properties of `github` that are variables, too, GITHUB_SHA and so on. */
const githubNames = [
  'action',
  'action_path',
  'actor',
  'api_url',
  'base_ref',
  'env',
  'event_name',
  'event_path',
  'head_ref',
  'job',
  'output',
  'path',
  'ref',
  'ref_name',
  'ref_protected',
  'ref_type',
  'repository',
  'repository_owner',
  'run_attempt',
  'run_id',
  'run_number',
  'server_url',
  'sha',
  'state',
  'step_summary',
  'triggering_actor',
  'workflow',
  'workflow_ref',
  'workflow_sha',
  'workspace',
]

/** Linux, execve(2): MAX_ARG_STRLEN, less the equals sign and the end. */
const variableMaxBytes = 128 * 1024 - 2

type Parts = {
  plan: Plan
  github: Record<string, Json>
  runner: Record<string, Json>
  secrets: Record<string, string>
  /** What the files and steps before set, the later over the earlier. */
  env: Record<string, string>
  home: string
  /** Where programs are found, and the folders that steps put before them. */
  path: string
  addedPath: readonly string[]
}

/**
 * All variables of a step. Those that say which run it is, GITHUB_*, RUNNER_* and SVC_*, win over `env`; a
 * secret loses against everything, so that none can take the place of PATH. Throws for one that is too long.
 */
export function stepVariables(parts: Parts): Record<string, string> {
  const { secrets, env, home, path, addedPath } = parts
  const variables: Record<string, string> = {
    ...secrets,
    CI: 'true',
    HOME: home,
    LANG: 'C.UTF-8',
    USER: 'runner',
    LOGNAME: 'runner',
    SHELL: '/bin/bash',
    PATH: path,
    ...env,
    ...fixedVariables(parts),
  }
  if (addedPath.length > 0) variables.PATH = [...addedPath, variables.PATH].join(':')
  for (const [name, value] of Object.entries(variables)) {
    if (Buffer.byteLength(name) + Buffer.byteLength(value) < variableMaxBytes) continue
    throw new Error(`The variable ${name} is longer than 128 KiB, which no program can be given.`)
  }
  // The system takes no others.
  return Object.fromEntries(
    Object.entries(variables).filter(
      ([name, value]) => !/[=\0]|^$/.test(name) && !value.includes('\0'),
    ),
  )
}

/** Whether a variable says which run it is, so that nothing can change it. */
export function isFixed(name: string): boolean {
  const lower = name.toLowerCase()
  if (lower.startsWith('github_')) {
    return lower === 'github_actions' || githubNames.includes(lower.slice('github_'.length))
  }
  return fixedNames.has(name)
}

const fixedNames = new Set([
  ...['NAME', 'OS', 'ARCH', 'TEMP', 'TOOL_CACHE', 'ENVIRONMENT'].map((name) => `RUNNER_${name}`),
  ...['RUN_ID', 'RUN_NUMBER', 'RUN_ATTEMPT', 'REPOSITORY', 'REF', 'BRANCH', 'TAG', 'COMMIT'].map(
    (name) => `SVC_${name}`,
  ),
  ...['EVENT', 'WORKFLOW', 'JOB', 'URL'].map((name) => `SVC_${name}`),
])

function fixedVariables({ plan, github, runner }: Parts): Record<string, string> {
  const { type, name } = nameOfRef(plan.ref)
  return {
    GITHUB_ACTIONS: 'true',
    ...Object.fromEntries(
      githubNames.flatMap((key) =>
        key in github ? [[`GITHUB_${key.toUpperCase()}`, toText(github[key])]] : [],
      ),
    ),
    RUNNER_NAME: toText(runner.name),
    RUNNER_OS: toText(runner.os),
    RUNNER_ARCH: toText(runner.arch),
    RUNNER_TEMP: toText(runner.temp),
    RUNNER_TOOL_CACHE: toText(runner.tool_cache),
    RUNNER_ENVIRONMENT: toText(runner.environment),
    SVC_RUN_ID: plan.runId,
    SVC_RUN_NUMBER: String(plan.number),
    SVC_RUN_ATTEMPT: String(plan.attempt),
    SVC_REPOSITORY: plan.repository.name,
    SVC_REF: plan.ref,
    [type === 'tag' ? 'SVC_TAG' : 'SVC_BRANCH']: name,
    SVC_COMMIT: plan.commit,
    SVC_EVENT: plan.event,
    SVC_WORKFLOW: toText(github.workflow),
    SVC_JOB: toText(github.job),
    SVC_URL: plan.serverUrl,
  }
}

function toText(value: Json | undefined): string {
  return value === undefined || value === null ? '' : String(value)
}
