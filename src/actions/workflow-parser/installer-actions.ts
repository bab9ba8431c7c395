import type { FaultList } from './fault-list.ts'
import type { Field } from './fields.ts'
import { readTemplates } from './values.ts'
import type { AnyStep, RunStep, Template } from './workflow.ts'
import type { WorkflowKey } from './workflow-keys.ts'

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
export function readInstaller(
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
