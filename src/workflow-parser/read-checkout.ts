import { type FaultList, quoted, unknownInput } from './fault-list.ts'
import { type Field, type FieldMessage, type NamedField, openNamed } from './fields.ts'
import { hasExpression, readTemplate } from './values.ts'
import type { AnyStep, CheckoutStep } from './workflow.ts'
import type { WorkflowKey } from './workflow-keys.ts'

// Inputs without effect when the commit is already checked out.
const harmless = ['persist-credentials', 'clean', 'show-progress', 'set-safe-directory']

const credentials = 'the commit is already checked out, and the workspace has no credentials.'
const wholeTree = 'the workspace has all files of the commit.'

/** Inputs that leave the run right, although they have no effect. */
const noted: Readonly<Record<string, string>> = {
  token: credentials,
  'ssh-key': credentials,
  'ssh-known-hosts': credentials,
  'ssh-strict': credentials,
  'ssh-user': credentials,
  'github-server-url': credentials,
  filter: wholeTree,
  'sparse-checkout': wholeTree,
  'sparse-checkout-cone-mode': wholeTree,
}

/** Inputs that ask for what there is not, unless they have their defaults. */
const refused: Readonly<Record<string, FieldMessage>> = {
  path: ['The commit is checked out at the top of the workspace.', 'Remove "path".'],
  lfs: ['Files of LFS are not fetched.', 'Remove "lfs", and fetch them in a "run" step.'],
  submodules: [
    'Submodules are not fetched.',
    'Remove "submodules", and write a step "run: git submodule update --init --recursive", which needs the network.',
  ],
}

const history = 'the workspace has this one commit: commands fail that need its history or tags.'

/** Reads the inputs of `actions/checkout`; of those that name a commit, expressions are checked when the step starts. */
export function readCheckout(
  field: Field | undefined,
  workflowKey: WorkflowKey,
  faults: FaultList,
): Omit<CheckoutStep, keyof AnyStep> {
  const step: Omit<CheckoutStep, keyof AnyStep> = {
    kind: 'checkout',
    repository: undefined,
    ref: undefined,
  }
  for (const entry of field ? openNamed(field, faults, 'Remove "with".') : []) {
    const { name } = entry
    if (name === 'ref' || name === 'repository') {
      if (hasExpression(entry.node)) step[name] = readTemplate(entry, workflowKey, faults)
      else if (textOf(entry) !== '') refuseOther(entry, faults)
    } else checkInput(entry, faults)
  }
  return step
}

function checkInput(entry: NamedField, faults: FaultList): void {
  const { name, keyPosition } = entry
  const value = textOf(entry)
  const isHistory = name === 'fetch-depth' || name === 'fetch-tags'
  if (harmless.includes(name)) return
  if (isHistory) {
    const isDefault = name === 'fetch-depth' ? value === '1' : value === 'false'
    if (!isDefault) faults.note(keyPosition, `${quoted(name)} has no effect: ${history}`)
    return
  }
  const note = Object.hasOwn(noted, name) ? noted[name] : undefined
  const refusal = Object.hasOwn(refused, name) ? refused[name] : undefined
  if (note) {
    faults.note(keyPosition, `${quoted(name)} has no effect: ${note}`)
  } else if (!refusal) {
    faults.add(keyPosition, unknownInput('action actions/checkout', name), 'Remove it.')
  } else if (!['', 'false', '.'].includes(value)) {
    faults.add(keyPosition, ...refusal)
  }
}

function refuseOther({ keyPosition, name }: NamedField, faults: FaultList): void {
  const instead =
    'Remove it. A "run" step can clone another repository or commit, if it has the network.'
  const what = name === 'ref' ? 'commit' : 'repository'
  faults.add(keyPosition, `Only the ${what} of the run can be checked out.`, instead)
}

function textOf({ node }: Field): string {
  return node.kind === 'scalar' ? String(node.value ?? '') : ' '
}
