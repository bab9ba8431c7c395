import { type FaultList, quoted, unknownInput } from './fault-list.ts'
import { type Field, openNamed } from './fields.ts'
import { inputsOf, type SetupAction, type SetupActionName, setupActions } from './setup-actions.ts'
import { suggest } from './suggest.ts'
import { readTemplates } from './values.ts'
import type { AnyStep, SetupStep } from './workflow.ts'
import type { WorkflowKey } from './workflow-keys.ts'

/** Reads an action that sets up a tool, such as actions/setup-node; undefined for any other action. */
export function readSetup(
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
