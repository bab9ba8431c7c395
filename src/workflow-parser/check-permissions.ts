import type { FaultList } from './fault-list.ts'
import type { Field } from './fields.ts'

/** Checks `permissions`. A run has no token, so it cannot be granted write access. */
export function checkPermissions(field: Field | undefined, faults: FaultList): void {
  if (!field) return
  const { node } = field
  const instead = 'Write "read" or "none", or omit "permissions".'
  const pairs = node.kind === 'map' ? node.entries.map(({ value }) => value) : [node]
  for (const value of pairs) {
    const word = value.kind === 'scalar' ? value.value : undefined
    const isHarmless =
      node.kind === 'map' ? word === 'read' || word === 'none' : word === 'read-all'
    if (isHarmless) continue
    const isWrite = word === 'write' || word === 'write-all'
    const message = isWrite
      ? 'Runs have no token, so write access cannot be granted.'
      : 'This is not a valid access level.'
    faults.add(value.position, message, instead)
  }
}
