import { type FaultList, quoted } from './fault-list.ts'
import type { Field } from './fields.ts'
import { type NamedField, openNamed } from './fields.ts'
import type { SourcePosition } from './workflow.ts'

const identifier = /^[A-Za-z_][A-Za-z0-9_-]{0,99}$/
const nameMaxLength = 100
const variable = /^[A-Za-z_][A-Za-z0-9_]{0,254}$/

export function isSecretIdentifier(text: string): boolean {
  return variable.test(text)
}

/** Reports an invalid id; ids appear in expressions: `steps.<id>.outputs.<id>`. */
export function checkIdentifier(name: string, position: SourcePosition, faults: FaultList): void {
  if (identifier.test(name) && !name.startsWith('__')) return
  const message = `${quoted(name)} is not a valid identifier.`
  const instead =
    'Use up to 100 letters, digits, "-" and "_"; start with a letter or one "_" ("__" is reserved).'
  faults.add(position, message, instead)
}

/**
 * Opens a mapping whose keys are ids. Ids that differ only in case are a fault: expressions do not distinguish them.
 */
export function openIdentified(field: Field, faults: FaultList, instead: string): NamedField[] {
  const fields = openUnique(field, faults, instead)
  for (const { name, keyPosition } of fields) checkIdentifier(name, keyPosition, faults)
  return fields
}

/** Opens a mapping whose keys are names of any characters, such as those of inputs. */
export function openUnique(field: Field, faults: FaultList, instead: string): NamedField[] {
  const fields = openNamed(field, faults, instead)
  const unique = createUniqueness(faults)
  for (const { name, keyPosition } of fields) {
    unique.check(name, keyPosition)
    if (name.length > 0 && name.length <= nameMaxLength && !/\p{Cc}/u.test(name)) continue
    const message = `${quoted(name)} is not a valid name.`
    faults.add(keyPosition, message, `Use 1 to ${nameMaxLength} characters of one line.`)
  }
  return fields
}

/** Reports duplicate names, ignoring case. */
export function createUniqueness(faults: FaultList) {
  const seen = new Map<string, SourcePosition>()
  return {
    check(name: string, position: SourcePosition): void {
      const earlier = seen.get(name.toLowerCase())
      if (!earlier) return void seen.set(name.toLowerCase(), position)
      const message = `The name ${quoted(name)} is already used in line ${earlier.line}; names are case-insensitive.`
      faults.add(position, message, 'Choose another name.')
    },
  }
}
