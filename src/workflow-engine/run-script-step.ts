import { posix } from 'node:path'
import { evaluateText } from '../workflow-parser/evaluate.ts'
import type { Scope } from '../workflow-parser/scope.ts'
import type { RunStep } from '../workflow-parser/workflow.ts'
import { assertCheckedOut } from './check-out-step.ts'
import { applyContinueOnError } from './emit-steps.ts'
import { evaluateNumber } from './evaluate-settings.ts'
import { createHashFiles } from './hash-files.ts'
import { joinNames, nameOf, type PlannedCommand } from './plan-steps.ts'
import { githubOf, type RunningJob, type StepList } from './running-job.ts'
import { commandOf, shellOf } from './shells.ts'
import { ended, type StepEnd, stepEndOf } from './step-end.ts'
import { openStepFiles } from './step-files.ts'
import { createStepOutput } from './step-output.ts'
import { toFault } from './to-fault.ts'
import { stepVariables } from './variables.ts'

type RunOptions = {
  running: RunningJob
  list: StepList
  planned: PlannedCommand
  /** The environment of the step and the actions around it. */
  env: Record<string, string>
  scope: Scope
  signal: AbortSignal
  continuesOnError: boolean
}

const minuteMs = 60_000
/** Linux, PATH_MAX. */
const pathMaxBytes = 4096

/** Runs the script of a step, and reports its start, output and end. */
export async function runScriptStep(options: RunOptions): Promise<StepEnd> {
  const { running, list, planned, continuesOnError } = options
  const { run } = running
  const { number: step } = planned
  const name = joinNames([...list.names, nameOf(planned.step, options.scope, run.masker)])
  const renamed = name === planned.name ? {} : { name }
  await run.emit({ kind: 'step-started', step, at: run.now(), ...renamed })
  const output = createStepOutput({
    masker: run.masker,
    outputMaxBytes: run.plan.limits.outputMaxBytes,
    emit: (text) => run.emit({ kind: 'output', step, text }),
  })
  const end = await execute(options, output).catch((error) =>
    ended('failure', { fault: toFault(error) }),
  )
  await output.end()
  const conclusion = applyContinueOnError(end.conclusion, continuesOnError || list.continuesOnError)
  const { exitCode, fault, summary } = end
  const at = run.now()
  await run.emit({ kind: 'step-ended', step, at, conclusion, exitCode, fault, summary })
  return end
}

async function execute(
  { running, list, planned, env, scope, signal }: RunOptions,
  output: ReturnType<typeof createStepOutput>,
): Promise<StepEnd> {
  const { run, workspace } = running
  const { step, number } = planned
  if (step.kind === 'checkout') {
    assertCheckedOut(step, run.plan, scope)
    await output.push(Buffer.from(`${run.plan.commit} is already checked out.\n`))
    return ended('success')
  }
  if (step.kind === 'omitted') {
    await output.push(Buffer.from(`${step.action} does nothing here: ${step.why}\n`))
    return ended('success')
  }
  const setting = (key: 'shell' | 'workingDirectory') => settingOf(step, list, scope, key)
  const shell = shellOf(setting('shell'))
  const cwd = posix.resolve(workspace.inside.workspace, setting('workingDirectory') ?? '')
  // The path appears whole in the error of a failing chdir, so that a secret in it is masked.
  if (Buffer.byteLength(cwd) >= pathMaxBytes) {
    throw new Error(`working-directory must be shorter than ${pathMaxBytes} bytes.`)
  }
  const minutes = evaluateNumber(step.timeoutMinutes, scope) ?? Number.POSITIVE_INFINITY
  const timeoutMs = Math.min(minutes * minuteMs, run.plan.limits.stepTimeoutMs)
  const script = evaluateText(step.run, scope)
  const files = openStepFiles(workspace, number, `script${shell.extension}`, script)
  const commandEnd = await workspace.run({
    command: commandOf(shell, files.script),
    env: stepVariables({
      plan: run.plan,
      github: { ...githubOf(running, list, step), ...files.github },
      // It is always an object in the contexts of a running job.
      runner: running.contexts.runner as Parameters<typeof stepVariables>[0]['runner'],
      secrets: running.secrets,
      env: { ...running.env, ...env },
      home: workspace.inside.home,
      path: run.runner.path,
      addedPath: running.addedPath,
    }),
    cwd,
    timeoutMs,
    signal,
    onOutput: (bytes) => output.push(bytes),
  })
  running.hashFiles = createHashFiles(workspace)
  const end = stepEndOf(commandEnd, { timeoutMs, stop: signal.aborted ? signal.reason : undefined })
  const left = await files.read(run.masker)
  running.lengthLeft -= JSON.stringify([left.env, left.path, left.outputs]).length
  if (running.lengthLeft < 0)
    throw new Error('The steps of the job set too many variables and outputs.')
  Object.assign(running.env, left.env)
  running.addedPath.unshift(...left.path)
  for (const note of left.notes) await output.note(`${note}\n`)
  const { outputs, summary } = left
  if (left.fault === undefined || end.conclusion !== 'success') return { ...end, outputs, summary }
  return { ...end, conclusion: 'failure', fault: left.fault, outputs, summary }
}

function settingOf(
  step: RunStep,
  list: StepList,
  scope: Scope,
  key: 'shell' | 'workingDirectory',
): string | undefined {
  const template = [step, ...list.defaults].map((one) => one[key]).find((one) => one !== undefined)
  return template && evaluateText(template, scope)
}
