import { posix } from 'node:path'
import { evaluateText } from '../workflow-parser/expressions/evaluate.ts'
import type { Scope } from '../workflow-parser/expressions/scope.ts'
import type { RunStep, StorageAction } from '../workflow-parser/workflow.ts'
import { runDownloadArtifact, runUploadArtifact } from './artifact-steps.ts'
import { runCache, runCacheRestore, runCacheSave } from './cache-steps.ts'
import { runCheckoutStep } from './check-out-step.ts'
import { evaluateEnvironment, evaluateTimeout } from './planning/evaluate-settings.ts'
import type { PlannedCommand } from './planning/plan-steps.ts'
import { runStepCommand } from './run-step-command.ts'
import { githubOf, type RunningStep, type StepList } from './running-job.ts'
import { ended, type StepEnd } from './step-end.ts'
import { type StorageContext, withinTime } from './storage-step.ts'

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

/** How a script is run: the extension of its file, and the command, in which `{0}` stands for the path of the file. */
type Shell = { extension: string; command: [string, ...string[]] }

/** An unsupported shell; the message names the supported ones. */
export class ShellError extends Error {
  override readonly name = 'ShellError'
}

const knownShells: Record<string, Shell> = {
  bash: { extension: '.sh', command: ['bash', '--noprofile', '--norc', '-eo', 'pipefail', '{0}'] },
  sh: { extension: '.sh', command: ['sh', '-e', '{0}'] },
  python: { extension: '.py', command: ['python3', '{0}'] },
}

/** As on GitHub, without pipefail. */
const defaultShell: Shell = { extension: '.sh', command: ['bash', '-e', '{0}'] }

/** Resolves the `shell` of a step. Throws a ShellError. */
export function shellOf(name: string | undefined): Shell {
  if (name === undefined || name.trim() === '') return defaultShell
  const shell = Object.hasOwn(knownShells, name) ? knownShells[name] : undefined
  if (shell) return shell
  const [program, ...args] = wordsOf(name)
  if (program !== undefined && args.some((word) => word.includes('{0}'))) {
    return { extension: '', command: [program, ...args] }
  }
  throw new ShellError(
    `shell: \`${name}\` is not supported; use bash, sh, python, or a command with {0} for the script's path, such as \`perl {0}\`.`,
  )
}

export function commandOf(shell: Shell, script: string): [string, ...string[]] {
  const [program, ...args] = shell.command
  return [program, ...args.map((word) => word.replaceAll('{0}', script))]
}

function wordsOf(text: string): string[] {
  const words = text.match(/"[^"]*"|'[^']*'|[^\s"']+/g) ?? []
  return words.map((word) => word.replace(/^(["'])(.*)\1$/s, '$2'))
}

type Options = Omit<StorageContext, 'timeoutMs' | 'inputs' | 'storage'>

const actions: Record<StorageAction, (context: StorageContext) => Promise<StepEnd>> = {
  cache: runCache,
  'cache/restore': runCacheRestore,
  'cache/save': runCacheSave,
  'upload-artifact': runUploadArtifact,
  'download-artifact': runDownloadArtifact,
}

/** Runs a step that saves or restores artifacts or caches. */
async function runStorageStep(options: Options): Promise<StepEnd> {
  const { running, step, scope, signal } = options
  const { run, files } = running
  const { timeoutMs, inputs } = await files.evaluate(() => ({
    timeoutMs: evaluateTimeout(step.timeoutMinutes, scope, run.plan.limits),
    inputs: evaluateEnvironment(step.with, scope),
  }))
  const entries = Object.entries(inputs)
  try {
    return await withinTime({ signal, timeoutMs }, (limited) =>
      actions[step.action]({
        ...options,
        inputs: new Map(entries.map(([name, value]) => [name.toLowerCase(), value])),
        timeoutMs,
        signal: limited,
        storage: run.storage,
      }),
    )
  } finally {
    running.files.forgetHashes()
  }
}
