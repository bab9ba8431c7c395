import type { WorkflowKey } from '../expressions/workflow-keys.ts'
import { type FaultList, quoted, unknownInput } from '../source/fault-list.ts'
import { type Field, type FieldMessage, type NamedField, openNamed } from '../source/fields.ts'
import type { AnyStep, CheckoutInput, CheckoutStep } from '../workflow.ts'
import { hasExpression, readTemplate } from './values.ts'

// Inputs without effect in a workspace whose files have one owner.
const harmless = ['show-progress', 'set-safe-directory']

const keys =
  'commits are fetched without SSH, and "git push" uses the token of the job, or "token".'
const wholeTree = 'the workspace has all files of the commit.'

/** Inputs without effect; the run is correct all the same. */
const noted: Readonly<Record<string, string>> = {
  'ssh-key': keys,
  'ssh-known-hosts': keys,
  'ssh-strict': keys,
  'ssh-user': keys,
  'github-server-url': 'commits are those of this server.',
  filter: wholeTree,
  'sparse-checkout': wholeTree,
  'sparse-checkout-cone-mode': wholeTree,
}

/** Inputs for features that do not exist here; their defaults are accepted. */
const refused: Readonly<Record<string, FieldMessage>> = {
  lfs: ['Files of LFS are not fetched.', 'Remove "lfs", and fetch them in a "run" step.'],
  submodules: [
    'Submodules are not fetched.',
    'Remove "submodules", and write a step "run: git submodule update --init --recursive", which needs the network.',
  ],
}

/** The inputs with an effect. */
const inputs: Readonly<Record<string, CheckoutInput>> = {
  repository: 'repository',
  ref: 'ref',
  path: 'path',
  clean: 'clean',
  'fetch-depth': 'fetchDepth',
  'fetch-tags': 'fetchTags',
  token: 'token',
  'persist-credentials': 'persistCredentials',
}

const flag = { form: /^(true|false)$/i, instead: 'Write true or false.' }
/** The form of literal values. Expressions are checked when the step starts. */
const literals: Readonly<Record<string, { form: RegExp; instead: string }>> = {
  'fetch-depth': { form: /^\d{1,9}$/, instead: 'Write a number of commits, or 0 for all.' },
  'fetch-tags': flag,
  clean: flag,
  'persist-credentials': flag,
}

/** Reads the inputs of `actions/checkout`. */
export function readCheckout(
  field: Field | undefined,
  workflowKey: WorkflowKey,
  faults: FaultList,
): Omit<CheckoutStep, keyof AnyStep> {
  const step: Omit<CheckoutStep, keyof AnyStep> = { kind: 'checkout', with: {} }
  for (const entry of field ? openNamed(field, faults, 'Remove "with".') : []) {
    const { name } = entry
    const input = Object.hasOwn(inputs, name) ? inputs[name] : undefined
    if (!input) checkInput(entry, faults)
    else if (textOf(entry) !== '') {
      const template = readTemplate(entry, workflowKey, faults)
      if (!hasExpression(entry.node)) checkLiteral(entry, faults)
      if (template) step.with[input] = template
    }
  }
  return step
}

function checkLiteral(entry: NamedField, faults: FaultList): void {
  const { name, label, keyPosition } = entry
  const value = textOf(entry)
  if (name === 'repository') {
    const instead = 'Remove it. A "run" step can clone another repository, if it has the network.'
    faults.unsupported(keyPosition, 'Only the repository of the run can be checked out.', instead)
  }
  if (name === 'path' && isOutside(value)) {
    const message = `${label} is ${quoted(value)}, which is not below the workspace.`
    faults.add(keyPosition, message, 'Write a path relative to the workspace.')
  }
  const literal = Object.hasOwn(literals, name) ? literals[name] : undefined
  if (literal && !literal.form.test(value)) {
    faults.add(keyPosition, `${label} is ${quoted(value)}.`, literal.instead)
  }
}

/** Whether a literal path leads out of the workspace, whose own path it cannot name. */
function isOutside(path: string): boolean {
  let depth = 0
  for (const name of path.split('/')) {
    if (name === '..') depth -= 1
    else if (name !== '' && name !== '.') depth += 1
    if (depth < 0) return true
  }
  return path.startsWith('/')
}

function checkInput(entry: NamedField, faults: FaultList): void {
  const { name, keyPosition } = entry
  const value = textOf(entry)
  if (harmless.includes(name)) return
  const note = Object.hasOwn(noted, name) ? noted[name] : undefined
  const refusal = Object.hasOwn(refused, name) ? refused[name] : undefined
  if (note) {
    faults.note(keyPosition, `${quoted(name)} has no effect: ${note}`)
  } else if (!refusal) {
    faults.note(keyPosition, unknownInput('action actions/checkout', name))
  } else if (!['', 'false'].includes(value)) {
    faults.unsupported(keyPosition, ...refusal)
  }
}

function textOf({ node }: Field): string {
  return node.kind === 'scalar' ? String(node.value ?? '') : ' '
}
