import { type FaultList, quoted } from './fault-list.ts'
import type { Field } from './fields.ts'
import { type NamedField, openNamed } from './fields.ts'
import type { SourcePosition } from './workflow.ts'

const identifier = /^[A-Za-z_][A-Za-z0-9_-]{0,99}$/
const variable = /^[A-Za-z_][A-Za-z0-9_]{0,254}$/

export function isSecretName(text: string): boolean {
  return variable.test(text)
}

/** Reports an invalid id; ids appear in expressions: `steps.<id>.outputs.<id>`. */
export function checkIdentifier(name: string, place: SourcePosition, faults: FaultList): void {
  if (identifier.test(name) && !name.startsWith('__')) return
  const message = `${quoted(name)} is not a valid identifier.`
  const instead =
    'Use up to 100 letters, digits, "-" and "_"; start with a letter or one "_" ("__" is reserved).'
  faults.add(place, message, instead)
}

/**
 * Opens a mapping whose keys are ids. Ids that differ only in case are a fault: expressions do not distinguish them.
 */
export function openIdentified(field: Field, faults: FaultList, instead: string): NamedField[] {
  const fields = openNamed(field, faults, instead)
  const unique = createUniqueness(faults)
  for (const { name, keyPlace } of fields) {
    checkIdentifier(name, keyPlace, faults)
    unique.check(name, keyPlace)
  }
  return fields
}

/** Reports duplicate names, ignoring case. */
export function createUniqueness(faults: FaultList) {
  const seen = new Map<string, SourcePosition>()
  return {
    check(name: string, place: SourcePosition): void {
      const earlier = seen.get(name.toLowerCase())
      if (!earlier) return void seen.set(name.toLowerCase(), place)
      const message = `The name ${quoted(name)} is already used in line ${earlier.line}; names are case-insensitive.`
      faults.add(place, message, 'Choose another name.')
    },
  }
}
