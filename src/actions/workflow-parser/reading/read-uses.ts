import type { WorkflowKey } from '../expressions/workflow-keys.ts'
import { inputsOf, type SetupAction, type SetupActionName, setupActions } from '../setup-actions.ts'
import { type FaultList, quoted, suggest, unknownInput } from '../source/fault-list.ts'
import { type Field, type FieldMessage, openNamed } from '../source/fields.ts'
import type {
  ActionStep,
  AnyStep,
  CheckoutStep,
  OmittedStep,
  RunStep,
  SetupStep,
  StorageStep,
  Template,
} from '../workflow.ts'
import { readCheckout } from './read-checkout.ts'
import { readStorage, storageActionOf } from './read-storage.ts'
import { readMapping, readTemplates, readText } from './values.ts'

/** An action that installs or runs a program; here its step is a script that uses the program of the runner. */
type InstallerAction = {
  /** Inputs with an effect, which are variables of the script. */
  inputs: Readonly<Record<string, string>>
  /** Whether the name after `@` may be the tool. */
  refIsTool?: true
  script: string
  note: string
}

const findTools = `for tool in $(tr ', ' '\\n\\n' <<<"$TOOLS"); do
  tool=\${tool%%@*}
  command -v "$tool" || command -v "cargo-$tool" || {
    echo "$tool is not installed on the runner" >&2
    exit 1
  }
done`

const installed = 'installs nothing here: its step fails unless the runner has the program.'
const ownProgram = 'runs the program that the runner has, in its version.'
const installer = { inputs: { tool: 'TOOLS' }, script: findTools, note: installed }

const actions: Readonly<Record<string, InstallerAction>> = {
  'dtolnay/install': { ...installer, refIsTool: true },
  'golangci/golangci-lint-action': {
    inputs: { args: 'ARGS', 'working-directory': 'FOLDER' },
    // Arguments are separated by white space, as the action does.
    script: 'cd "${FOLDER:-.}" && golangci-lint run $ARGS',
    note: ownProgram,
  },
  'pre-commit/action': {
    inputs: { extra_args: 'ARGS' },
    script: 'pre-commit run --show-diff-on-failure --color=always ${ARGS:---all-files}',
    note: ownProgram,
  },
  'taiki-e/cache-cargo-install-action': { ...installer, refIsTool: true },
  'taiki-e/install-action': { ...installer, refIsTool: true },
}

/** Reads a step with one of these actions; undefined for other actions. */
function readInstaller(
  { node }: Field,
  uses: string,
  withField: Field | undefined,
  workflowKey: WorkflowKey,
  faults: FaultList,
): (Omit<RunStep, keyof AnyStep> & Pick<AnyStep, 'name' | 'env'>) | undefined {
  const [action = '', ref = ''] = uses.split('@')
  const name = action.toLowerCase()
  const known = Object.hasOwn(actions, name) ? actions[name] : undefined
  if (!known) return undefined
  const { position } = node
  const toTemplate = (text: string): Template => ({ text, position })
  faults.note(position, `${action} ${known.note}`)
  const given = readTemplates(withField, workflowKey, faults)
  const env = Object.entries(known.inputs).flatMap(([input, variable]) => {
    const value = given[input]
    return value ? [[variable, value] as const] : []
  })
  const isTool = known.refIsTool && env.length === 0 && /^[a-z][\w-]*$/i.test(ref)
  return {
    kind: 'run',
    name: toTemplate(`Run ${action}`),
    env: isTool ? { TOOLS: toTemplate(ref) } : Object.fromEntries(env),
    run: toTemplate(known.script),
    shell: toTemplate('bash'),
    workingDirectory: undefined,
  }
}

// Actions of other repositories that many projects use. None of them runs here.

const caches = 'it only caches files of builds, which take longer without it.'
const reports = 'it only sends reports elsewhere.'

/** Actions whose steps do nothing here, because the run is correct without them; each with the reason. */
const omitted: Readonly<Record<string, string>> = {
  'andremiras/coveralls-python-action': reports,
  'codecov/codecov-action': reports,
  'coverallsapp/github-action': reports,
  'dorny/test-reporter': reports,
  'enricomi/publish-unit-test-result-action': reports,
  'gradle/actions/setup-gradle': caches,
  'jlumbroso/free-disk-space': 'it only frees space on the machines of GitHub.',
  'mikepenz/action-junit-report': reports,
  'mozilla-actions/sccache-action': caches,
  'step-security/harden-runner': 'it only watches the machines of GitHub; the sandbox applies.',
  'swatinem/rust-cache': caches,
}

/** What to write instead of an action. */
const replacements: Readonly<Record<string, string>> = {
  'actions-rs/cargo': 'Write "run: cargo" with its "command" and "args".',
  'gradle/actions/wrapper-validation': 'Remove the step, and review changes of the wrapper.',
  'gradle/gradle-build-action': 'Write "run: ./gradlew …".',
  're-actors/alls-green':
    'Write "run: ${{ !contains(join(needs.*.result), \'failure\') }}", in a job with "if: always()".',
}

/** Inputs with which an action does more. */
const notOmittedWith: Readonly<Record<string, string[]>> = {
  'gradle/actions/setup-gradle': ['arguments', 'gradle-version'],
}

/** Why the steps of an action do nothing with these inputs; undefined for other actions. */
function whyOmitted(action: string, inputs: readonly string[]): string | undefined {
  const doesMore = lookUp(notOmittedWith, action)?.some((input) => inputs.includes(input))
  return doesMore ? undefined : lookUp(omitted, action)
}

/** Returns what to write instead of an action; undefined for other actions. */
function replacementOf(action: string): string | undefined {
  return lookUp(replacements, action)
}

function lookUp<Value>(table: Readonly<Record<string, Value>>, action: string): Value | undefined {
  const name = action.toLowerCase()
  return Object.hasOwn(table, name) ? table[name] : undefined
}

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

/** Reads an action that sets up a tool, such as actions/setup-node; undefined for any other action. */
function readSetup(
  field: Field,
  uses: string,
  withField: Field | undefined,
  workflowKey: WorkflowKey,
  faults: FaultList,
): Omit<SetupStep, keyof AnyStep> | undefined {
  const at = uses.includes('@') ? uses.indexOf('@') : uses.length
  const name = uses.slice(0, at).toLowerCase()
  if (!Object.hasOwn(setupActions, name)) return undefined
  // It is one of the names.
  const action = name as SetupActionName
  const setup: SetupAction = setupActions[action]
  const known = inputsOf(setup)
  const given = withField ? openNamed(withField, faults, 'Write "name: value" lines.') : []
  for (const { name: input, keyPosition, node } of given) {
    const key = input.toLowerCase()
    const note = Object.hasOwn(setup.noted, key) ? setup.noted[key] : undefined
    const value = node.kind === 'scalar' ? String(node.value ?? '') : ''
    if (note && !['', 'false'].includes(value) && !value.includes('${{')) {
      faults.note(keyPosition, `${quoted(input)} has no effect: ${note}.`)
    }
    if (known.includes(key)) continue
    const similar = suggest(input, known)
    const advice = similar ? ` Did you mean ${quoted(similar)}?` : ''
    faults.note(keyPosition, `${unknownInput(`action ${name}`, input)}${advice}`)
  }
  for (const input of setup.required ?? []) {
    if (given.some((one) => one.name.toLowerCase() === input)) continue
    const message = `The action ${name} requires the input ${quoted(input)}.`
    faults.add(field.node.position, message, `Add ${quoted(input)} in "with".`)
  }
  // The faults of the mapping itself have been reported.
  const templates = given.length > 0 ? readTemplates(withField, workflowKey, faults) : {}
  const inputs = Object.entries(templates).map(
    ([input, value]) => [input.toLowerCase(), value] as const,
  )
  return { kind: 'setup', action, ref: uses.slice(at + 1), with: Object.fromEntries(inputs) }
}
