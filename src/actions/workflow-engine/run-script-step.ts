import { posix } from 'node:path'
import { evaluateText } from '../workflow-parser/evaluate.ts'
import type { Scope } from '../workflow-parser/scope.ts'
import type { RunStep } from '../workflow-parser/workflow.ts'
import { runCheckoutStep } from './check-out-step.ts'
import { evaluateTimeout } from './evaluate-settings.ts'
import type { PlannedCommand } from './plan-steps.ts'
import { runStepCommand } from './run-step-command.ts'
import { runStorageStep } from './run-storage-step.ts'
import { githubOf, type RunningStep, type StepList } from './running-job.ts'
import { commandOf, shellOf } from './shells.ts'
import { ended, type StepEnd } from './step-end.ts'

type RunOptions = RunningStep & {
  planned: PlannedCommand
  /** Its name, with those around it. */
  name: string
}

/** Linux, PATH_MAX. */
const pathMaxBytes = 4096

/** Runs the script or the built-in action of a step. */
export async function runScriptStep(options: RunOptions): Promise<StepEnd> {
  const { running, list, planned, number, env, scope, signal, output } = options
  const { run, workspace, files } = running
  const { step } = planned
  if (step.kind === 'checkout') return runCheckoutStep({ ...options, step })
  if (step.kind === 'omitted') {
    await output.push(Buffer.from(`${step.action} does nothing here: ${step.why}\n`))
    return ended('success')
  }
  if (step.kind === 'storage') return runStorageStep({ ...options, step })
  if (step.kind === 'setup') {
    // Imported lazily: comparing versions costs memory.
    const { setUpTools } = await import('./setup-tools.ts')
    return setUpTools({ ...options, step })
  }
  const setting = (key: 'shell' | 'workingDirectory') => settingOf(step, list, scope, key)
  const settings = await files.evaluate(() => ({
    shell: shellOf(setting('shell')),
    folder: setting('workingDirectory') ?? '',
    text: evaluateText(step.run, scope),
    timeoutMs: evaluateTimeout(step.timeoutMinutes, scope, run.plan.limits),
  }))
  const { shell, folder, text, timeoutMs } = settings
  const cwd = posix.resolve(workspace.inside.workspace, folder)
  // The path appears whole in the error of a failing chdir, so that a secret in it is masked.
  if (Buffer.byteLength(cwd) >= pathMaxBytes) {
    throw new Error(`working-directory must be shorter than ${pathMaxBytes} bytes.`)
  }
  return runStepCommand({
    running,
    number,
    script: { name: `script${shell.extension}`, text },
    command: ({ script }) => commandOf(shell, script),
    cwd,
    env,
    github: githubOf(running, list, step),
    timeoutMs,
    signal,
    output,
  })
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
