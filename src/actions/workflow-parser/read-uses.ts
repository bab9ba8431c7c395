import { type FaultList, quoted } from './fault-list.ts'
import type { Field, FieldMessage } from './fields.ts'
import { replacementOf, whyOmitted } from './foreign-actions.ts'
import { readInstaller } from './installer-actions.ts'
import { readCheckout } from './read-checkout.ts'
import { readSetup } from './read-setup.ts'
import { readStorage, storageActionOf } from './read-storage.ts'
import { readMapping, readText } from './values.ts'
import type {
  ActionStep,
  AnyStep,
  CheckoutStep,
  OmittedStep,
  SetupStep,
  StorageStep,
} from './workflow.ts'
import type { WorkflowKey } from './workflow-keys.ts'

type Use =
  | Pick<ActionStep, 'kind' | 'path' | 'with'>
  | Omit<CheckoutStep, keyof AnyStep>
  | Omit<OmittedStep, keyof AnyStep>
  | Pick<StorageStep, 'kind' | 'action' | 'with'>
  | Omit<SetupStep, keyof AnyStep>
  | NonNullable<ReturnType<typeof readInstaller>>

/** Reads `uses`: an action of the repository, or one that is built in. */
export function readUses(
  field: Field,
  withField: Field | undefined,
  workflowKey: WorkflowKey,
  faults: FaultList,
): Use | undefined {
  const uses = readText(field, faults)
  if (uses === undefined) return undefined
  if (/^actions\/checkout(@|$)/i.test(uses)) {
    return readCheckout(withField, workflowKey, faults)
  }
  const storageAction = storageActionOf(uses)
  if (storageAction) return readStorage(storageAction, field, withField, workflowKey, faults)
  const installer = readInstaller(field, uses, withField, workflowKey, faults)
  if (installer) return installer
  const omitted = readOmitted(field, uses, withField, faults)
  if (omitted) return omitted
  const setup = readSetup(field, uses, withField, workflowKey, faults)
  if (setup) return setup
  const unsupported = describeUnsupported(uses)
  if (unsupported) return void faults.unsupported(field.node.position, ...unsupported)
  const fault = isLocal(uses) ? checkPath(uses) : referenceFault(uses)
  if (fault) return void faults.add(field.node.position, ...fault)
  const inputs = readMapping(withField, workflowKey, faults)
  return { kind: 'action', path: folderOf(uses), with: inputs }
}

function readOmitted(
  { node }: Field,
  uses: string,
  withField: Field | undefined,
  faults: FaultList,
): Omit<OmittedStep, keyof AnyStep> | undefined {
  const [action = ''] = uses.split('@')
  const entries = withField?.node.kind === 'map' ? withField.node.entries : []
  const why = whyOmitted(
    action,
    entries.map(({ key }) => key),
  )
  if (why === undefined) return undefined
  faults.note(node.position, `${action} does nothing here: ${why}`)
  return { kind: 'omitted', action, why }
}

/** Normalizes a folder of the repository: `./a//b/` is `a/b`. */
function folderOf(path: string): string {
  return path
    .split('/')
    .filter((part) => part !== '' && part !== '.')
    .join('/')
}

const inRepository =
  'Write the commands in a "run" step, or put an action into the repository and write "uses: ./its/folder".'

function describeUnsupported(uses: string): FieldMessage | undefined {
  if (uses.startsWith('docker://')) {
    return ['Steps cannot run containers.', 'Write the commands in a "run" step.']
  }
  if (isLocal(uses)) return undefined
  const [action = ''] = uses.split('@')
  const replacement = replacementOf(action)
  if (replacement !== undefined) return [`${quoted(uses)} cannot be used here.`, replacement]
  const known = unsupportedActions.find(([pattern]) => pattern.test(action))
  if (known) return [`${quoted(uses)} cannot be used here.`, known[1]]
  if (referenceFault(uses)) return undefined
  return [
    `Actions of other repositories, such as ${quoted(uses)}, are not supported.`,
    inRepository,
  ]
}

function isLocal(uses: string): boolean {
  return /^\.{0,2}\//.test(uses) || uses === '.' || uses === '..'
}

function referenceFault(uses: string): FieldMessage | undefined {
  if (/^[\w.-]+\/[\w.-]+/.test(uses.split('@')[0] ?? '')) return undefined
  const message = `${quoted(uses)} is not a valid action reference.`
  return [message, 'Write "uses: ./folder/of/the/action".']
}

const unsupportedActions: [RegExp, string][] = [
  [
    /^[^/]+\/(setup-|install-)/i,
    'Remove the step: the tools of the runner are on PATH. Install others in a "run" step.',
  ],
  [/^actions\/upload-pages-artifact/i, 'Write "uses: actions/upload-artifact" with "name".'],
  [/^actions\/github-script/i, 'Write "run" with "shell: node {0}" or a script of the repository.'],
]

function checkPath(uses: string): FieldMessage | undefined {
  const instead =
    'Write the path of a folder from the root of the repository: "./.github/actions/build".'
  if (!uses.startsWith('./') && uses !== '.') {
    return [`The path ${quoted(uses)} does not start at the root of the repository.`, instead]
  }
  if (uses.split('/').includes('..')) return ['The path of an action cannot contain "..".', instead]
  if (uses.includes('\\')) return ['The path of an action cannot contain a backslash.', instead]
  if (/\p{Cc}/u.test(uses)) return ['The path of an action contains a control character.', instead]
  if (/\.ya?ml$/.test(uses)) {
    const file = /\/action\.ya?ml$/.test(uses)
    return file
      ? ['This is the file of the action.', 'Write the path of its folder.']
      : ['A step cannot use a workflow.', inRepository]
  }
  return undefined
}
