import { type FaultList, listed, quoted } from './fault-list.ts'
import { type Field, type FieldMessage, openNamed } from './fields.ts'
import { readTemplates, readText } from './values.ts'
import type { ActionStep, CheckoutStep } from './workflow.ts'
import type { WorkflowKey } from './workflow-keys.ts'

type Use = Pick<ActionStep, 'kind' | 'path' | 'with'> | Pick<CheckoutStep, 'kind'>

/** Reads `uses`: a composite action of the repository, or the checkout, which has already happened. */
export function readUses(
  field: Field,
  withField: Field | undefined,
  workflowKey: WorkflowKey,
  faults: FaultList,
): Use | undefined {
  const uses = readText(field, faults)
  if (uses === undefined) return undefined
  if (/^actions\/checkout(@|$)/i.test(uses)) {
    if (withField) checkCheckout(withField, faults)
    return { kind: 'checkout' }
  }
  const unsupported = describeUnsupported(uses)
  if (unsupported) return void faults.add(field.node.position, ...unsupported)
  const inputs = readTemplates(withField, workflowKey, faults)
  return { kind: 'action', path: folderOf(uses), with: inputs }
}

/** Normalizes a folder of the repository: `./a//b/` is `a/b`. */
function folderOf(path: string): string {
  return path
    .split('/')
    .filter((part) => part !== '' && part !== '.')
    .join('/')
}

const inRepository =
  'Write the commands in a "run" step, or put a composite action into the repository and write "uses: ./its/folder".'

function describeUnsupported(uses: string): FieldMessage | undefined {
  if (uses.startsWith('docker://')) {
    return ['Steps cannot run containers.', 'Write the commands in a "run" step.']
  }
  if (/^\.{0,2}\//.test(uses) || uses === '.' || uses === '..') return checkPath(uses)
  const [action = ''] = uses.split('@')
  const known = unsupportedActions.find(([pattern]) => pattern.test(action))
  if (known) return [`${quoted(uses)} cannot be used here.`, known[1]]
  if (!/^[\w.-]+\/[\w.-]+/.test(action)) {
    return [
      `${quoted(uses)} is not a valid action reference.`,
      'Write "uses: ./folder/of/the/action".',
    ]
  }
  return [
    `Actions of other repositories, such as ${quoted(uses)}, are not supported.`,
    inRepository,
  ]
}

const unsupportedActions: [RegExp, string][] = [
  [
    /^[^/]+\/(setup-|install-)/i,
    'Remove the step: the tools of the runner are on PATH. Install others in a "run" step.',
  ],
  [/^actions\/cache/i, 'Remove the step: nothing is kept between runs.'],
  [
    /^actions\/(upload|download)-(pages-)?artifact/i,
    'Write small results to $GITHUB_OUTPUT and pass them on with "outputs" and "needs", or use a single job.',
  ],
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

// Inputs without effect when the commit is already checked out.
const harmless = ['persist-credentials', 'clean', 'show-progress', 'set-safe-directory']

function checkCheckout(field: Field, faults: FaultList): void {
  for (const { name, keyPosition, node } of openNamed(field, faults, 'Remove "with".')) {
    const isShallow = name === 'fetch-depth' && node.kind === 'scalar' && String(node.value) === '1'
    if (isShallow || harmless.includes(name)) continue
    const message = `${quoted(name)} has no effect: the one commit of the run is already checked out, without history and other repositories.`
    const instead = `Remove it; only fetch-depth: 1, ${listed(harmless, 'and')} are accepted.`
    faults.add(keyPosition, message, instead)
  }
}
