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

/** From GitHub's table "Context availability" and its schema of actions. */
const table = {
  'run-name': { label: '`run-name`', contexts: run, functions: [] },
  concurrency: { label: '`concurrency`', contexts: run, functions: [] },
  env: { label: "the workflow's `env`", contexts: [...run, 'secrets'], functions: [] },
  'job.if': { label: "a job's `if`", contexts: [...run, 'needs'], functions: ofJobs },
  'job.name': { label: "a job's `name`", contexts: job, functions: [] },
  'job.strategy': { label: "a job's `strategy`", contexts: [...run, 'needs'], functions: [] },
  'job.env': { label: "a job's `env`", contexts: [...job, 'secrets'], functions: [] },
  'job.outputs': { label: "a job's `outputs`", contexts: step, functions: [] },
  'job.runs-on': { label: "a job's `runs-on`", contexts: job, functions: [] },
  'job.container': { label: "a job's `container`", contexts: job, functions: [] },
  'job.timeout-minutes': { label: "a job's `timeout-minutes`", contexts: job, functions: [] },
  'job.continue-on-error': { label: "a job's `continue-on-error`", contexts: job, functions: [] },
  'job.defaults': { label: "a job's `defaults`", contexts: [...job, 'env'], functions: [] },
  'job.with': { label: "a job's `with`", contexts: job, functions: [] },
  'job.secrets': { label: "a job's `secrets`", contexts: [...job, 'secrets'], functions: [] },
  'call.input-default': {
    label: 'the `default` of an input of `workflow_call`',
    contexts: run,
    functions: [],
  },
  'call.output': {
    label: 'an output of `workflow_call`',
    contexts: [...run, 'jobs'],
    functions: [],
  },
  'step.if': { label: "a step's `if`", contexts: condition, functions: [...ofSteps, hashFiles] },
  'step.env': { label: "a step's `env`", contexts: step, functions: [hashFiles] },
  'step.name': { label: "a step's `name`", contexts: step, functions: [hashFiles] },
  'step.run': { label: "a step's `run`", contexts: step, functions: [hashFiles] },
  'step.with': { label: "a step's `with`", contexts: step, functions: [hashFiles] },
  'step.shell': { label: "a step's `shell`", contexts: step, functions: [hashFiles] },
  'step.working-directory': {
    label: "a step's `working-directory`",
    contexts: step,
    functions: [hashFiles],
  },
  'step.timeout-minutes': {
    label: "a step's `timeout-minutes`",
    contexts: step,
    functions: [hashFiles],
  },
  'step.continue-on-error': {
    label: "a step's `continue-on-error`",
    contexts: step,
    functions: [hashFiles],
  },
  'action.outputs': {
    label: "an action's `outputs`",
    contexts: actionStep,
    functions: [],
  },
  'action.input-default': {
    label: "the `default` of an action's input",
    contexts: action,
    functions: [hashFiles],
  },
  'action.step': {
    label: "an action's step",
    contexts: actionStep,
    functions: [hashFiles],
  },
  'action.step.if': {
    label: "the `if` of an action's step",
    contexts: actionStep,
    functions: [...ofSteps, hashFiles],
  },
  'action.hook-if': {
    label: 'a `pre-if` or `post-if`',
    contexts: actionStep,
    functions: [...ofSteps, hashFiles],
  },
} as const satisfies Record<string, Availability>

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
