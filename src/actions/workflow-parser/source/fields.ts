import type { SourcePosition } from '../workflow.ts'
import { type FaultList, listed, quoted, suggest } from './fault-list.ts'
import type { MapNode, SourceNode } from './source-text.ts'

/** The keys of one kind of mapping. */
type Shape<Key extends string = string> = {
  /** The name in messages: `a job`. */
  name: string
  keys: readonly Key[]
  /** Keys that users know from elsewhere, with their messages. */
  unsupported?: Readonly<Record<string, FieldMessage>>
}

export type FieldMessage = readonly [message: string, instead: string]

/** A value and its name in messages. */
export type Field = { label: string; node: SourceNode; keyPosition: SourcePosition }

export type Fields<Key extends string = string> = { get: (key: Key) => Field | undefined }

// Suggestions are expensive, so only this many faults get one.
const maxSuggestions = 200

/** Opens a mapping by its known keys. Unknown keys, and values that are not mappings, are faults. */
export function openFields<Key extends string>(
  field: Field,
  shape: Shape<Key>,
  faults: FaultList,
): Fields<Key> | undefined {
  const map = openMap(field, faults, `Write the keys of ${shape.name}: ${listed(shape.keys)}.`)
  if (!map) return undefined
  const found = new Map<string, Field>()
  for (const { key, keyPosition, value } of map.entries) {
    const isKnown = shape.keys.some((known) => known === key)
    if (isKnown) found.set(key, { label: quoted(key), node: value, keyPosition })
    else faults.add(keyPosition, ...faultOfKey(key, shape, faults.count() < maxSuggestions))
  }
  return { get: (key) => found.get(key) }
}

/** Returns the mapping of a field; otherwise reports a fault. */
export function openMap(field: Field, faults: FaultList, instead: string): MapNode | undefined {
  if (field.node.kind === 'map') return field.node
  faults.add(
    field.node.position,
    `${field.label} is ${kindOf(field.node)}, not a mapping.`,
    instead,
  )
  return undefined
}

/** Opens a mapping whose keys are chosen by the author of the file. */
export function openNamed(field: Field, faults: FaultList, instead: string): NamedField[] {
  return (openMap(field, faults, instead)?.entries ?? []).map(({ key, keyPosition, value }) => ({
    name: key,
    label: quoted(key),
    node: value,
    keyPosition,
  }))
}

export type NamedField = Field & { name: string }

/** Reports a mapping with too many entries. */
export function checkNumberOfEntries(field: Field, max: number, faults: FaultList): void {
  const { label, node, keyPosition } = field
  if (node.kind !== 'map' || node.entries.length <= max) return
  const message = `${label} has ${node.entries.length} entries; the maximum is ${max}.`
  faults.add(keyPosition, message, 'Combine several values into one string.')
}

/** Opens a list; otherwise reports a fault and returns undefined. */
export function openList(field: Field, faults: FaultList, instead: string): Field[] | undefined {
  if (field.node.kind === 'list') return itemsOf(field)
  faults.add(field.node.position, `${field.label} is ${kindOf(field.node)}, not a list.`, instead)
  return undefined
}

/** Opens a list, or a single value as a list of one. */
export function itemsOf(field: Field): Field[] {
  if (field.node.kind !== 'list') return [field]
  return field.node.items.map((node) => ({
    label: `An item of ${field.label}`,
    node,
    keyPosition: node.position,
  }))
}

/** Whether a value is absent, as in `name:`. */
export function isNull(node: SourceNode | undefined): boolean {
  return node?.kind === 'scalar' && node.value === null
}

/** The kind of a value, for messages. */
export function kindOf(node: SourceNode): string {
  if (node.kind === 'map') return 'a mapping'
  if (node.kind === 'list') return 'a list'
  if (node.value === null) return 'empty'
  if (typeof node.value === 'string') return 'a string'
  return typeof node.value === 'number' ? 'a number' : 'true or false'
}

function faultOfKey(
  key: string,
  { name, keys, unsupported }: Shape,
  mayCompare: boolean,
): FieldMessage {
  const known = unsupported && Object.hasOwn(unsupported, key) ? unsupported[key] : undefined
  if (known) return known
  const similar = mayCompare ? suggest(key, keys) : undefined
  const instead = similar ? `Write ${quoted(similar)}.` : `Use one of ${listed(keys)}.`
  return [`Unexpected key ${quoted(key)} in ${name}.`, instead]
}

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
