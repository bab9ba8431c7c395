import type { Json } from '#base/json.ts'
import { proxyUrl } from '../sandbox/job-network.ts'
import { createTailBuffer } from './output/limited-output.ts'
import type { StepOutput } from './output/step-output.ts'
import type { CommandSetting } from './run-state.ts'
import { applyEffects, type RunningJob } from './running-job.ts'
import { type StepEnd, stepEndOf } from './step-end.ts'
import { openStepFiles, type StepFiles } from './step-files.ts'
import { stepVariables } from './variables.ts'

/** The end of the output that says why a program failed. */
const tailBytes = 4096

type Options = {
  running: RunningJob
  /** The number of the step. */
  number: number
  /** The name of the step's script in the folder of its files, and its text. */
  script?: { name: string; text: string }
  command: (files: StepFiles) => [string, ...string[]]
  cwd: string
  /** The environment of the step and of the actions around it. */
  env: Record<string, string>
  /** The `github` context. */
  github: Record<string, Json>
  timeoutMs: number
  signal: AbortSignal
  output: StepOutput
}

/** Runs the program of a step, and applies what it has left in its environment files to the job. */
export async function runStepCommand(options: Options): Promise<StepEnd> {
  const { running, number, script, command, cwd, env, github, timeoutMs, signal, output } = options
  const { run, workspace } = running
  const { hosts, line } = running.network
  if (line !== undefined) await output.noteOnce(`${line}\n`)
  const isProxied = typeof hosts !== 'string'
  const files = openStepFiles(workspace, number, script)
  const setting: CommandSetting = {
    env: stepVariables({
      plan: run.plan,
      github: { ...github, ...files.github },
      // It is always an object in the contexts of a running job.
      runner: running.contexts.runner as Parameters<typeof stepVariables>[0]['runner'],
      secrets: running.secrets,
      identity: running.identity,
      proxyUrl: isProxied ? proxyUrl : undefined,
      runnerEnv: run.runner.env,
      env: { ...running.env, ...env },
      home: workspace.inside.home,
      path: run.runner.path,
      addedPath: running.addedPath,
    }),
    cwd,
    ...(isProxied && {
      network: { rules: hosts, log: (text: string) => output.note(`${text}\n`) },
    }),
    ...(hosts === 'none' && { network: hosts }),
  }
  running.lastSetting = setting
  const tail = createTailBuffer(tailBytes)
  const commandEnd = await workspace.run({
    ...setting,
    command: command(files),
    timeoutMs,
    signal,
    onOutput(bytes) {
      tail.write(bytes)
      return output.push(bytes)
    },
  })
  running.files.forgetHashes()
  const end = stepEndOf(commandEnd, { timeoutMs, stop: signal.aborted ? signal.reason : undefined })
  const left = await files.read(run.masker)
  const { outputs, summary, state } = left
  applyEffects(running, { env: left.env, path: left.path, outputs, state })
  for (const note of left.notes) await output.note(`${note}\n`)
  const result = { ...end, outputs, summary, state }
  if (end.conclusion === 'failure' && end.fault === '')
    return { ...result, fault: whyUnreached(running, tail.read()) ?? '' }
  if (left.fault === undefined || end.conclusion !== 'success') return result
  return { ...result, conclusion: 'failure', fault: left.fault }
}

/** Error messages of programs that cannot reach a host. */
const unreached =
  /could not resolve|failed to lookup address|name resolution|name or service not known|no address associated|network is unreachable|no such host|getaddrinfo|EAI_AGAIN|ENOTFOUND|ENETUNREACH/i

/** Why a failed step reached no host, if the end of its output shows that it did not; else undefined. */
function whyUnreached(
  { run, network, job, workflow }: Pick<RunningJob, 'run' | 'network' | 'job' | 'workflow'>,
  tail: Buffer,
): string | undefined {
  const isWithout = network.hosts === 'none' || run.sandbox.isolation.network === 'none'
  if (!isWithout || !unreached.test(tail.toString('latin1'))) return undefined
  const wanted = job.network ?? workflow.network
  if (wanted?.length === 0)
    return 'The workflow gives the step no network: list the host in its key "network".'
  const key = wanted ? '' : ' A workflow narrows these with its key "network".'
  return `The step has no network: the administrator of the runner allows hosts with SVC_STEP_HOSTS.${key}`
}
