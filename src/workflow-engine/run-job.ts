import type { Workspace } from '../sandbox/sandbox.ts'
import { writeFresh } from '../sandbox/workspace-files.ts'
import { evaluateText, evaluateTree } from '../workflow-parser/evaluate.ts'
import type { Json } from '../workflow-parser/scope.ts'
import type { Job, Workflow } from '../workflow-parser/workflow.ts'
import { afterTime, type Cancellation, createCancellation, onAbort } from './cancellation.ts'
import { allowedSecrets, type Contexts, runnerContext, scopeOf } from './contexts.ts'
import { toFault } from './error-text.ts'
import { evaluateEnvironment, evaluateNumber } from './evaluate-settings.ts'
import { createHashFiles } from './hash-files.ts'
import type { Conclusion } from './plan.ts'
import type { PlannedJob } from './plan-job.ts'
import type { RunState } from './run-state.ts'
import { runSteps } from './run-steps.ts'
import type { RunningJob, StepList } from './running-job.ts'
import { toDuration } from './step-end.ts'

type RunOptions = {
  run: RunState
  workflow: Workflow
  job: Job
  planned: PlannedJob
  ending: Cancellation
}

export type JobEnd = { conclusion: Conclusion; outputs: Record<string, string>; fault: string }

const minuteMs = 60_000
/** Characters that all steps of a job may leave to those after them. */
const leftMaxLength = 8 * 1024 ** 2
/** Bytes of all outputs of a job as JSON: they are told in one report. */
const outputsMaxBytes = 256 * 1024
const usualLabels = /^(ubuntu-.+|linux|self-hosted|x64|arm64|default)$/i

/** Runs a job in a room of its own. Whatever happens, it ends with a conclusion. */
export async function runJob(asked: RunOptions): Promise<JobEnd> {
  const { run, job, planned, ending } = asked
  try {
    const scope = scopeOf(planned.contexts)
    assertLabels(job, evaluateTree(job.runsOn ?? null, scope), run.runner.labels)
    const minutes = evaluateNumber(job.timeoutMinutes, scope)
    using _timer =
      minutes === undefined
        ? undefined
        : afterTime(minutes * minuteMs, () => {
            const text = `The job took longer than ${toDuration(minutes * minuteMs)}.`
            ending.stop({ conclusion: 'timed_out', text })
          })
    await using room = disposedOnce(await run.sandbox.openRoom())
    // What still runs ends with its room.
    using _hard = onAbort(ending.hard, () => void disposeQuietly(room))
    return await runInRoom(asked, room)
  } catch (error) {
    const why = ending.why()
    if (ending.soft.aborted && why)
      return { conclusion: why.conclusion, outputs: {}, fault: why.text }
    return { conclusion: 'failure', outputs: {}, fault: toFault(error) }
  }
}

async function runInRoom(
  { run, workflow, job, planned, ending }: RunOptions,
  room: Workspace,
): Promise<JobEnd> {
  const contexts: Contexts = { ...planned.contexts, runner: runnerContext(run.runner, room) }
  const workflowEnv = evaluateEnvironment(workflow.env, scopeOf(contexts))
  const jobEnv = evaluateEnvironment(job.env, scopeOf({ ...contexts, env: workflowEnv }))
  const running: RunningJob = {
    run,
    workflow,
    job,
    planned,
    room,
    ending,
    contexts,
    env: { ...workflowEnv, ...jobEnv },
    addedPath: [],
    secrets: allowedSecrets(run.plan, workflow),
    lengthLeft: leftMaxLength,
    hashFiles: createHashFiles(room),
  }
  const list: StepList = {
    names: [],
    results: {},
    failed: undefined,
    soft: ending.soft,
    hard: ending.hard,
    env: {},
    // Contexts are made of JSON, and inputs are always among them.
    inputs: contexts.inputs ?? {},
    actionPath: undefined,
    defaults: [job.defaults, workflow.defaults],
    isPassedOver: false,
  }
  writeFresh(`${room.outside.files}/event.json`, Buffer.from(JSON.stringify(run.plan.payload)))
  await run.checkOut(room, ending.soft)
  await runSteps(running, list, planned.steps)
  const why = ending.why()
  const conclusion = why?.conclusion ?? list.failed ?? 'success'
  const outputs = await outputsOf(running, list)
  return { conclusion, outputs, fault: why?.text ?? '' }
}

function disposedOnce(room: Workspace): Workspace {
  let disposal: Promise<void> | undefined
  return {
    ...room,
    [Symbol.asyncDispose]: () => (disposal ??= Promise.resolve(room[Symbol.asyncDispose]())),
  }
}

async function disposeQuietly(room: Workspace): Promise<void> {
  try {
    await room[Symbol.asyncDispose]()
  } catch {
    // Whoever disposes of it in the end learns of it.
  }
}

/** An ending of a job within that of its run; `holds` says whether it goes on when the run is to end. */
export function endingOf(run: RunState, holds: () => boolean): Cancellation {
  const ending = createCancellation()
  const { ending: outer } = run
  const why = () => outer.why() ?? ({ conclusion: 'cancelled', text: '' } as const)
  const onHard = onAbort(outer.hard, () => ending.kill(why()))
  const onSoft = onAbort(outer.soft, () => {
    if (!holds()) ending.stop(why())
  })
  return {
    ...ending,
    [Symbol.dispose]() {
      onHard[Symbol.dispose]()
      onSoft[Symbol.dispose]()
      ending[Symbol.dispose]()
    },
  }
}

async function outputsOf(
  { run, job, planned, contexts, env }: RunningJob,
  list: StepList,
): Promise<Record<string, string>> {
  const scope = scopeOf({ ...contexts, env, steps: list.results })
  const outputs: Record<string, string> = {}
  for (const [name, template] of Object.entries(job.outputs)) {
    const value = evaluateText(template, scope)
    if (!run.masker.finds(value)) {
      outputs[name] = value
      continue
    }
    const text = `${planned.name}: the output ${name} is left out, for it holds a secret.\n`
    await run.emit({ kind: 'output', step: null, text })
  }
  if (Buffer.byteLength(JSON.stringify(outputs)) > outputsMaxBytes) {
    throw new Error(
      `The outputs of the job are longer than ${outputsMaxBytes} bytes; hand on less.`,
    )
  }
  return outputs
}

function assertLabels({ id }: Job, runsOn: Json, labels: readonly string[]): void {
  const wanted = (Array.isArray(runsOn) ? runsOn : [runsOn]).filter((label) => label !== null)
  for (const label of wanted) {
    const name = String(label)
    if (usualLabels.test(name) || labels.some((one) => one.toLowerCase() === name.toLowerCase())) {
      continue
    }
    const known = labels.length > 0 ? `has ${labels.join(', ')}` : 'has no labels of its own'
    throw new Error(
      `runs-on of ${id}: there is no ${name} here; this runner ${known}, and any takes ubuntu-latest.`,
    )
  }
}
