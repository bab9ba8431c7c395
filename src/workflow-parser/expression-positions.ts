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

/** The contexts and functions available at a position of a workflow, and its name in messages. */
export type Availability = { place: string; contexts: ContextName[]; functions: Signature[] }

/** From GitHub's table "Context availability" and its schema of actions. */
const table = {
  'run-name': { place: '`run-name`', contexts: run, functions: [] },
  concurrency: { place: '`concurrency`', contexts: run, functions: [] },
  env: { place: "the workflow's `env`", contexts: [...run, 'secrets'], functions: [] },
  'job.if': { place: "a job's `if`", contexts: [...run, 'needs'], functions: ofJobs },
  'job.name': { place: "a job's `name`", contexts: job, functions: [] },
  'job.strategy': { place: "a job's `strategy`", contexts: [...run, 'needs'], functions: [] },
  'job.env': { place: "a job's `env`", contexts: [...job, 'secrets'], functions: [] },
  'job.outputs': { place: "a job's `outputs`", contexts: step, functions: [] },
  'job.runs-on': { place: "a job's `runs-on`", contexts: job, functions: [] },
  'job.timeout-minutes': { place: "a job's `timeout-minutes`", contexts: job, functions: [] },
  'job.continue-on-error': { place: "a job's `continue-on-error`", contexts: job, functions: [] },
  'job.defaults': { place: "a job's `defaults`", contexts: [...job, 'env'], functions: [] },
  'step.if': { place: "a step's `if`", contexts: condition, functions: [...ofSteps, hashFiles] },
  'step.env': { place: "a step's `env`", contexts: step, functions: [hashFiles] },
  'step.name': { place: "a step's `name`", contexts: step, functions: [hashFiles] },
  'step.run': { place: "a step's `run`", contexts: step, functions: [hashFiles] },
  'step.with': { place: "a step's `with`", contexts: step, functions: [hashFiles] },
  'step.shell': { place: "a step's `shell`", contexts: step, functions: [hashFiles] },
  'step.working-directory': {
    place: "a step's `working-directory`",
    contexts: step,
    functions: [hashFiles],
  },
  'step.timeout-minutes': {
    place: "a step's `timeout-minutes`",
    contexts: step,
    functions: [hashFiles],
  },
  'step.continue-on-error': {
    place: "a step's `continue-on-error`",
    contexts: step,
    functions: [hashFiles],
  },
  'action.outputs': {
    place: "an action's `outputs`",
    contexts: actionStep,
    functions: [],
  },
  'action.input-default': {
    place: "the `default` of an action's input",
    contexts: action,
    functions: [hashFiles],
  },
  'action.step': {
    place: "an action's step",
    contexts: actionStep,
    functions: [hashFiles],
  },
  'action.step.if': {
    place: "the `if` of an action's step",
    contexts: actionStep,
    functions: [...ofSteps, hashFiles],
  },
} as const satisfies Record<string, Availability>

/** A position in a workflow or an action where expressions are allowed. */
export type Position = keyof typeof table

export const positions: Record<Position, Availability> = table

const contexts = new Set<string>(contextNames)

/** Whether a context exists at any position, ignoring case. */
export function isContext(name: string): boolean {
  return contexts.has(name.toLowerCase())
}

/** The functions of all places, each as wide as it is anywhere. */
export const allFunctions: Signature[] = [...ofJobs, hashFiles]

const functions = new Set(
  [...functionsEverywhere, ...allFunctions.map(({ name }) => name)].map((name) =>
    name.toLowerCase(),
  ),
)

/** Whether a function exists at any position, ignoring case. */
export function isFunction(name: string): boolean {
  return functions.has(name.toLowerCase())
}

/** The names of the functions available at a position. */
export function functionsAt({ functions }: Availability): string[] {
  return [...functionsEverywhere, ...functions.map(({ name }) => name)]
}
