import { type FaultList, quoted } from './fault-list.ts'
import type { Field } from './fields.ts'

const known = ['bash', 'sh', 'python']
const ofWindows = ['pwsh', 'powershell', 'cmd']

/** Reports a `shell` that is neither a known one nor a command with `{0}` for the path of the script. */
export function checkShell(field: Field | undefined, faults: FaultList): void {
  if (field?.node.kind !== 'scalar' || typeof field.node.value !== 'string') return
  const shell = field.node.value
  if (known.includes(shell) || shell.includes('{0}') || shell.includes('${{')) return
  const add = ofWindows.includes(shell.toLowerCase()) ? faults.unsupported : faults.add
  const message = `The shell ${quoted(shell)} is not supported.`
  const instead =
    'Write bash, sh, python, or a command with {0} for the path of the script, such as "perl {0}".'
  add(field.node.position, message, instead)
}
