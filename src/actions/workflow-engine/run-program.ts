import { posix } from 'node:path'
import type { ActionHook, ActionStep, Template } from '../workflow-parser/workflow.ts'
import {
  actionInputs,
  evaluateEnvironment,
  evaluateTimeout,
  inputVariables,
} from './planning/evaluate-settings.ts'
import type { PlannedProgram } from './planning/plan-steps.ts'
import { addPostStep } from './post-steps.ts'
import { runStepCommand } from './run-step-command.ts'
import { githubOf, type RunningJob, type RunningStep } from './running-job.ts'
import type { StepEnd } from './step-end.ts'

type RunOptions = RunningStep & {
  planned: PlannedProgram
  /** Relative to the folder of the action. */
  file: string
}

/** Runs one of the programs of an action for Node.js; they share what they save. */
export async function runProgram(options: RunOptions): Promise<StepEnd> {
  const { running, list, planned, number, file, env, scope, signal, output } = options
  const { run, workspace, files } = running
  const { step, action, program } = planned
  const state = stateOf(running, planned)
  // The programs of an action also get inputs that it does not declare.
  const inputs = await files.evaluate(() => {
    const given = evaluateEnvironment(step.with, scope)
    return { ...given, ...actionInputs(action, given, scope) }
  })
  const saved = Object.entries(state).map(([name, value]) => [`STATE_${name}`, value])
  const { node } = run.sandbox
  await output.note(
    node
      ? `Node.js ${node.version} runs this action, which names ${program.using}.\n`
      : `The \`node\` of PATH runs this action, which names ${program.using}.\n`,
  )
  const path = posix.join(workspace.inside.workspace, action.path, file)
  const end = await runStepCommand({
    running,
    number,
    command: () => [node?.path ?? 'node', path],
    cwd: workspace.inside.workspace,
    env: { ...env, ...inputVariables(inputs), ...Object.fromEntries(saved) },
    github: githubOf(running, list, step),
    timeoutMs: await files.evaluate(() =>
      evaluateTimeout(step.timeoutMinutes, scope, run.plan.limits),
    ),
    signal,
    output,
  })
  Object.assign(state, output.state, end.state)
  return end
}

function stateOf({ states }: RunningJob, planned: PlannedProgram): Record<string, string> {
  const state = states.get(planned) ?? {}
  states.set(planned, state)
  return state
}

/** The condition of a `pre` or a `post`: unlike a step, it runs always by default. */
export function hookCondition(hook: ActionHook, { position }: ActionStep): Template {
  return hook.if ?? { text: 'always()', position }
}

/** Adds the `post` of an action to the end of the job; `name` is that of the step. */
export async function registerPost(
  { running, list, planned }: Pick<RunOptions, 'running' | 'list' | 'planned'>,
  name: string,
): Promise<void> {
  const { post } = planned.program
  if (!post) return
  await addPostStep(running, {
    key: planned,
    name: `Post ${name}`,
    step: planned.step,
    list,
    condition: hookCondition(post, planned.step),
    run: (options) => runProgram({ ...options, planned, file: post.file }),
  })
}
