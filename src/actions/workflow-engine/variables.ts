import type { Json } from '#base/json.ts'
import { nameOfRef } from './contexts.ts'
import type { JobIdentity, Plan } from './plan.ts'

/** Properties of `github` that are also variables, such as GITHUB_SHA. */
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

/** Linux, execve(2): MAX_ARG_STRLEN, less the equals sign and the terminating NUL. */
const variableMaxBytes = 128 * 1024 - 2

type Parts = {
  plan: Plan
  github: Record<string, Json>
  runner: Record<string, Json>
  secrets: Record<string, string>
  /** The credentials of the job. */
  identity: JobIdentity | undefined
  /** Set by the workflow files and earlier steps; later ones override earlier ones. */
  env: Record<string, string>
  home: string
  /** The address of the proxy through which the step reaches hosts, if it does. */
  proxyUrl: string | undefined
  /** Set by the administrator of the runner. */
  runnerEnv: Record<string, string>
  /** The PATH, and the folders that steps have put before it. */
  path: string
  addedPath: readonly string[]
}

/**
 * The environment of a step. The variables that identify the run (GITHUB_*, RUNNER_*, SVC_*) override `env`; secrets
 * are overridden by everything, so that none can replace PATH, and then the variables of the runner. Throws when a variable is too long.
 */
export function stepVariables(parts: Parts): Record<string, string> {
  const { secrets, runnerEnv, env, home, proxyUrl, path, addedPath } = parts
  const variables: Record<string, string> = {
    ...secrets,
    ...runnerEnv,
    CI: 'true',
    HOME: home,
    LANG: 'C.UTF-8',
    USER: 'runner',
    LOGNAME: 'runner',
    SHELL: '/bin/bash',
    PATH: path,
    ...(proxyUrl === undefined ? {} : proxyVariables(proxyUrl)),
    ...env,
    ...fixedVariables(parts),
  }
  if (addedPath.length > 0) variables.PATH = [...addedPath, variables.PATH].join(':')
  for (const [name, value] of Object.entries(variables)) {
    if (Buffer.byteLength(name) + Buffer.byteLength(value) < variableMaxBytes) continue
    throw new Error(`The variable ${name} exceeds 128 KiB, the limit of the operating system.`)
  }
  assertFits(variables)
  // execve(2) accepts no others.
  return Object.fromEntries(
    Object.entries(variables).filter(
      ([name, value]) => !/[=\0]|^$/.test(name) && !value.includes('\0'),
    ),
  )
}

/** Linux gives arguments and variables together a quarter of the stack; the rest is for arguments. */
const variablesMaxBytes = 2 * 1024 ** 2 - 256 * 1024
const shownNames = 5

function assertFits(variables: Record<string, string>): void {
  const sizes = Object.entries(variables).map(
    ([name, value]) => [name, Buffer.byteLength(name) + Buffer.byteLength(value) + 10] as const,
  )
  const total = sizes.reduce((sum, [, size]) => sum + size, 0)
  if (total <= variablesMaxBytes) return
  const largest = sizes
    .toSorted(([, one], [, other]) => other - one)
    .slice(0, shownNames)
    .map(([name]) => name)
  throw new Error(
    `The ${sizes.length} variables of the step have ${total} bytes; the operating system gives a process ${variablesMaxBytes}. The largest are ${largest.join(', ')}.`,
  )
}

// Programs differ in the case that they read. Node's own clients honour these variables only when asked to.
function proxyVariables(proxyUrl: string): Record<string, string> {
  const variables = { HTTP_PROXY: proxyUrl, HTTPS_PROXY: proxyUrl, NO_PROXY: ownHosts }
  const lower = Object.entries(variables).map(([name, value]) => [name.toLowerCase(), value])
  return { ...variables, ...Object.fromEntries(lower), NODE_USE_ENV_PROXY: '1' }
}

/** Hosts that are the step itself. */
const ownHosts = 'localhost,127.0.0.1,::1,svc'

/** Whether a variable identifies the run, so that nothing may change it. */
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
  ...['URL', 'TOKEN'].map((name) => `ACTIONS_ID_TOKEN_REQUEST_${name}`),
])

function fixedVariables({ plan, github, runner, identity }: Parts): Record<string, string> {
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
    ...(identity?.idTokens && {
      ACTIONS_ID_TOKEN_REQUEST_URL: identity.idTokens.url,
      ACTIONS_ID_TOKEN_REQUEST_TOKEN: identity.idTokens.token,
    }),
  }
}

function toText(value: Json | undefined): string {
  return value === undefined || value === null ? '' : String(value)
}
