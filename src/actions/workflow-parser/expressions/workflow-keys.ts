/** The contexts of GitHub Actions. */
export const contextNames = [
  'github',
  'env',
  'vars',
  'job',
  'jobs',
  'steps',
  'runner',
  'secrets',
  'strategy',
  'matrix',
  'needs',
  'inputs',
] as const

type ContextName = (typeof contextNames)[number]

/** The minimum and maximum number of arguments. */
export type Signature = { name: string; minArgs: number; maxArgs: number }

/** Functions that are available everywhere; the library implements them. */
const functionsEverywhere = [
  'case',
  'contains',
  'endsWith',
  'format',
  'fromJSON',
  'join',
  'startsWith',
  'toJSON',
] as const

const always: Signature = { name: 'always', minArgs: 0, maxArgs: 0 }
const cancelled: Signature = { name: 'cancelled', minArgs: 0, maxArgs: 0 }
const hashFiles: Signature = { name: 'hashFiles', minArgs: 1, maxArgs: 255 }
const ofSteps = [
  always,
  cancelled,
  { name: 'success', minArgs: 0, maxArgs: 0 },
  { name: 'failure', minArgs: 0, maxArgs: 0 },
]
/** In a job's condition, status functions accept job ids. */
const ofJobs = [
  always,
  cancelled,
  { name: 'success', minArgs: 0, maxArgs: 255 },
  { name: 'failure', minArgs: 0, maxArgs: 255 },
]

const run: ContextName[] = ['github', 'inputs', 'vars']
const job: ContextName[] = [...run, 'needs', 'strategy', 'matrix']
const condition: ContextName[] = [...job, 'job', 'runner', 'env', 'steps']
const step: ContextName[] = [...condition, 'secrets']
const action: ContextName[] = ['github', 'strategy', 'matrix', 'job', 'runner']
const actionStep: ContextName[] = [...action, 'inputs', 'steps', 'env']

/** The contexts and functions available under a key, and the name of the key in messages. */
export type Availability = { label: string; contexts: ContextName[]; functions: Signature[] }

const under = (
  label: string,
  contexts: ContextName[],
  functions: Signature[] = [],
): Availability => ({ label, contexts, functions })

/** From GitHub's table "Context availability" and its schema of actions. */
const table = {
  'run-name': under('`run-name`', run),
  concurrency: under('`concurrency`', run),
  env: under("the workflow's `env`", [...run, 'secrets']),
  'job.if': under("a job's `if`", [...run, 'needs'], ofJobs),
  'job.name': under("a job's `name`", job),
  'job.strategy': under("a job's `strategy`", [...run, 'needs']),
  'job.env': under("a job's `env`", [...job, 'secrets']),
  'job.outputs': under("a job's `outputs`", step),
  'job.runs-on': under("a job's `runs-on`", job),
  'job.container': under("a job's `container`", job),
  'job.timeout-minutes': under("a job's `timeout-minutes`", job),
  'job.continue-on-error': under("a job's `continue-on-error`", job),
  'job.defaults': under("a job's `defaults`", [...job, 'env']),
  'job.with': under("a job's `with`", job),
  'job.secrets': under("a job's `secrets`", [...job, 'secrets']),
  'call.input-default': under('the `default` of an input of `workflow_call`', run),
  'call.output': under('an output of `workflow_call`', [...run, 'jobs']),
  'step.if': under("a step's `if`", condition, [...ofSteps, hashFiles]),
  'step.env': under("a step's `env`", step, [hashFiles]),
  'step.name': under("a step's `name`", step, [hashFiles]),
  'step.run': under("a step's `run`", step, [hashFiles]),
  'step.with': under("a step's `with`", step, [hashFiles]),
  'step.shell': under("a step's `shell`", step, [hashFiles]),
  'step.working-directory': under("a step's `working-directory`", step, [hashFiles]),
  'step.timeout-minutes': under("a step's `timeout-minutes`", step, [hashFiles]),
  'step.continue-on-error': under("a step's `continue-on-error`", step, [hashFiles]),
  'action.outputs': under("an action's `outputs`", actionStep),
  'action.input-default': under("the `default` of an action's input", action, [hashFiles]),
  'action.step': under("an action's step", actionStep, [hashFiles]),
  'action.step.if': under("the `if` of an action's step", actionStep, [...ofSteps, hashFiles]),
  'action.hook-if': under('a `pre-if` or `post-if`', actionStep, [...ofSteps, hashFiles]),
}

/** A key of a workflow or an action whose value may contain expressions; GitHub calls it a workflow key. */
export type WorkflowKey = keyof typeof table

export const availability: Record<WorkflowKey, Availability> = table

const contexts = new Set<string>(contextNames)

/** Whether a context is available under any key, ignoring case. */
export function isContext(name: string): boolean {
  return contexts.has(name.toLowerCase())
}

/** The functions of all keys, each with the widest range of arguments. */
export const allFunctions: Signature[] = [...ofJobs, hashFiles]

const functions = new Set(
  [...functionsEverywhere, ...allFunctions.map(({ name }) => name)].map((name) =>
    name.toLowerCase(),
  ),
)

/** Whether a function is available under any key, ignoring case. */
export function isFunction(name: string): boolean {
  return functions.has(name.toLowerCase())
}

/** The names of the functions available under a key. */
export function functionsAt({ functions }: Availability): string[] {
  return [...functionsEverywhere, ...functions.map(({ name }) => name)]
}
