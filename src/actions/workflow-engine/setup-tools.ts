import type { FoundTool } from '../tool-cache/find-tool.ts'
import { toolOfFolder } from '../tool-cache/tool-kinds.ts'
import { type SetupAction, type SetupTool, setupActions } from '../workflow-parser/setup-actions.ts'
import type { SetupStep } from '../workflow-parser/workflow.ts'
import { evaluateEnvironment, evaluateTimeout } from './evaluate-settings.ts'
import { runStepCommand } from './run-step-command.ts'
import { applyEffects, githubOf, type RunningStep } from './running-job.ts'
import { shQuote } from './sh-quote.ts'
import { ended, type StepEnd } from './step-end.ts'
import type { StepOutput } from './step-output.ts'
import { environmentOf } from './tool-environment.ts'
import { findTool, requestedVersions, type SetupRequest } from './tool-requests.ts'

type SetupRun = RunningStep & { step: SetupStep }

const versionFileMaxBytes = 64 * 1024

/** Provides the tools of a step such as actions/setup-node to the following steps. Throws when the runner lacks one. */
export async function setUpTools(setup: SetupRun): Promise<StepEnd> {
  const { running, step, scope, env, output } = setup
  const { files } = running
  const { runner } = running.run
  const request: SetupRequest = {
    action: step.action,
    ref: step.ref,
    inputs: await files.evaluate(() => evaluateEnvironment(step.with, scope)),
  }
  await writeNotes(setup, request)
  const versions = await requestedVersions(request, (path) => readVersionFile(setup, path))
  const { home } = running.workspace.inside
  const outputs: Record<string, string> = {}
  for (const version of versions) {
    const found = await findTool(runner.tools, request, version)
    await output.note(`${describe(found, request)}\n`)
    const own = environmentOf({
      ...{ request, found, home },
      architecture: runner.arch,
      env: { ...running.secrets, ...runner.env, ...running.env, ...env },
    })
    if (found.name === undefined) uncover(setup, found.tool)
    applyEffects(running, { env: own.env, path: own.path })
    Object.assign(outputs, own.outputs)
    if (own.script.length === 0) continue
    const end = await runCommands(setup, own.script.join('\n'), output)
    if (end.conclusion !== 'success') return { ...end, outputs }
  }
  return ended('success', { outputs })
}

async function writeNotes({ output }: SetupRun, { action, inputs }: SetupRequest): Promise<void> {
  const { noted }: SetupAction = setupActions[action]
  for (const [input, note] of Object.entries(noted)) {
    const value = inputs[input]?.trim() ?? ''
    if (value !== '' && value !== 'false') await output.note(`${input} has no effect: ${note}.\n`)
  }
}

function describe({ tool, name, version, path, program }: FoundTool, { inputs }: SetupRequest) {
  if (name !== undefined) return `${version} found in the tool cache: ${path}`
  const instead = tool === 'java' ? `, in place of the distribution ${inputs.distribution}` : ''
  return `${version} found on the runner's PATH: ${program}${instead}`
}

/** Reads a file of the workspace, inside the sandbox because it may be a link to anywhere; undefined if there is none. */
async function readVersionFile(setup: SetupRun, path: string): Promise<string | undefined> {
  const pieces: Buffer[] = []
  const file = shQuote(path.startsWith('-') ? `./${path}` : path)
  const script = `[ -f ${file} ] || exit 3\nexec head -c ${versionFileMaxBytes} ${file}`
  const push = async (bytes: Buffer) => void pieces.push(bytes)
  const end = await runCommands(setup, script, { ...setup.output, push })
  if (end.conclusion === 'success') return Buffer.concat(pieces).toString()
  if (end.exitCode === 3) return undefined
  throw new Error(end.fault || `${path} cannot be read: ${Buffer.concat(pieces)}`)
}

/** Runs commands with the tools that the step has set up so far. */
async function runCommands(
  { running, list, step, number, env, scope, signal }: SetupRun,
  text: string,
  output: StepOutput,
): Promise<StepEnd> {
  return runStepCommand({
    running,
    number,
    script: { name: 'script.sh', text },
    command: ({ script }) => ['sh', '-e', script],
    cwd: running.workspace.inside.workspace,
    env,
    github: githubOf(running, list, step),
    timeoutMs: await running.files.evaluate(() =>
      evaluateTimeout(step.timeoutMinutes, scope, running.run.plan.limits),
    ),
    signal,
    output,
  })
}

// The machine's tool is at the end of PATH, behind those that earlier steps have set up.
function uncover({ running }: SetupRun, tool: SetupTool): void {
  const { folders } = running.run.runner.tools
  const isOfTool = (path: string) =>
    folders.some((folder) => {
      const [name = ''] = path.slice(folder.length + 1).split('/')
      return path.startsWith(`${folder}/`) && toolOfFolder(name) === tool
    })
  running.addedPath = running.addedPath.filter((path) => !isOfTool(path))
}
