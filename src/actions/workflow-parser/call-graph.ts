import { readCallInputs } from './reading/given-inputs.ts'
import {
  type FaultList,
  listed,
  maxFaults,
  quoted,
  suggest,
  unknownInput,
} from './source/fault-list.ts'
import type {
  CallInterface,
  Fault,
  SourcePosition,
  TemplateTree,
  Workflow,
  WorkflowCall,
} from './workflow.ts'

// As on GitHub.
export const maxCallLevels = 4
export const tooManyLevels = `Workflows that call each other have more than ${maxCallLevels} levels.`
const maxCalled = 20

/** The workflows that the jobs of a workflow call, each once. */
function calledPaths(workflow: Workflow): string[] {
  return [...new Set(callsOf(workflow).map(({ path }) => path))]
}

/** Paths of workflows that are called, directly or not, and are not among the given ones. */
export function missingWorkflows(workflows: readonly Workflow[], given: string[]): string[] {
  return [...new Set(workflows.flatMap(calledPaths))].filter((path) => !given.includes(path))
}

/** Reports calls of workflows that are not there. */
export function missingWorkflowFaults(
  workflows: readonly Workflow[],
  missing: readonly string[],
): Fault[] {
  return workflows
    .flatMap(callsOf)
    .filter(({ path }) => missing.includes(path))
    .map(({ path, position }) => ({
      ...position,
      message: `There is no file ${quoted(`./${path}`)}.`,
      instead: 'Add it to the commit, or name a file that is there.',
    }))
}

/** Reports calls that do not fit what is called, circles, and too many levels; after 50 faults no further calls. */
export function callGraphFaults(
  roots: readonly Workflow[],
  called: ReadonlyMap<string, Workflow>,
): Fault[] {
  const faults: Fault[] = []
  const add: FaultList['add'] = (position, message, instead) =>
    void faults.push({ ...position, message, instead })
  for (const caller of new Set([...roots, ...called.values()])) {
    for (const call of callsOf(caller)) {
      const target = called.get(call.path)
      if (target) checkCall(call, target, add)
      // This is not in the thread whose time is limited.
      if (faults.length >= maxFaults) return faults
    }
  }
  for (const root of roots) checkLevels(root, called, add)
  return faults
}

function callsOf({ jobs }: Workflow): WorkflowCall[] {
  return jobs.flatMap(({ call }) => call ?? [])
}

function checkLevels(
  root: Workflow,
  called: ReadonlyMap<string, Workflow>,
  add: FaultList['add'],
): void {
  const reached = new Set<string>()
  const visited = new Set<string>()
  const visit = (workflow: Workflow, trail: string[]): boolean => {
    const key = `${trail.length} ${workflow.path}`
    if (visited.has(key)) return true
    visited.add(key)
    return callsOf(workflow).every(({ path, position }) => {
      const fault = levelFault(path, [...trail, workflow.path])
      if (fault) return void add(position, ...fault)
      reached.add(path)
      const target = called.get(path)
      return !target || visit(target, [...trail, workflow.path])
    })
  }
  const [first] = callsOf(root)
  if (!first || !visit(root, []) || reached.size <= maxCalled) return
  const message = `The workflow calls ${reached.size} others, directly or not; the maximum is ${maxCalled}.`
  add(first.position, message, 'Put their jobs into fewer files.')
}

function levelFault(path: string, trail: string[]): [string, string] | undefined {
  if (trail.includes(path)) {
    return [`The workflow ${quoted(`./${path}`)} calls itself, directly or not.`, 'Remove the job.']
  }
  if (trail.length < maxCallLevels) return undefined
  return [tooManyLevels, 'Put the jobs of the last one into the file that calls it.']
}

function checkCall(call: WorkflowCall, target: Workflow, add: FaultList['add']): void {
  const { position, path } = call
  const { call: accepted } = target.on
  if (!accepted) {
    const message = `${quoted(`./${path}`)} has no "on: workflow_call".`
    add(position, message, 'Add "workflow_call:" to its "on".')
    return
  }
  const instead = `Its inputs are ${namesOf(accepted.inputs)}.`
  for (const message of inputFaults(call, accepted)) add(position, `${message} (${path})`, instead)
  checkSecrets(call, accepted, position, add)
}

function inputFaults(call: WorkflowCall, { inputs }: CallInterface): string[] {
  // Expressions are checked when the job starts.
  const isLiteral = (value: TemplateTree) =>
    value === null || typeof value !== 'object' || ('text' in value && !value.text.includes('${{'))
  const literals = Object.entries(call.with).flatMap(([name, value]) => {
    if (!isLiteral(value)) return []
    return [[name, typeof value === 'object' && value && 'text' in value ? value.text : value]]
  })
  const later = Object.keys(call.with).filter((name) => !isLiteral(call.with[name] ?? null))
  const declared = Object.entries(inputs)
    .filter(([name]) => !later.includes(name))
    // A default with an expression is a default.
    .map(([name, input]) => [
      name,
      { ...input, default: input.default === undefined ? undefined : '' },
    ])
  const read = readCallInputs(Object.fromEntries(declared), Object.fromEntries(literals))
  const unknown = later.filter((name) => !Object.hasOwn(inputs, name))
  return [
    ...('faults' in read ? read.faults.map(({ message }) => message) : []),
    ...unknown.map((name) => unknownInput('workflow', name)),
  ]
}

function checkSecrets(
  { secrets, path }: WorkflowCall,
  accepted: CallInterface,
  position: SourcePosition,
  add: FaultList['add'],
): void {
  if (secrets === 'inherit') return
  const names = Object.keys(accepted.secrets)
  for (const name of Object.keys(secrets)) {
    if (names.includes(name)) continue
    const similar = suggest(name, names)
    const instead = similar ? `Write ${quoted(similar)}.` : `Declare it in ./${path}.`
    add(position, `The workflow ./${path} has no secret ${quoted(name)}.`, instead)
  }
  for (const name of names) {
    if (!accepted.secrets[name]?.required || Object.hasOwn(secrets, name)) continue
    const instead = `Write "secrets: inherit", or ${name}: \${{ secrets.${name} }}.`
    add(position, `The workflow ./${path} requires the secret ${quoted(name)}.`, instead)
  }
}

function namesOf(inputs: CallInterface['inputs']): string {
  return Object.keys(inputs).length === 0 ? 'none' : listed(Object.keys(inputs), 'and')
}
