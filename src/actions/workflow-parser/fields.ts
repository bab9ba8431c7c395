import { type FaultList, listed, quoted } from './fault-list.ts'
import type { MapNode, SourceNode } from './source-node.ts'
import { suggest } from './suggest.ts'
import type { SourcePosition } from './workflow.ts'

/** The keys of one kind of mapping. */
export type Shape<Key extends string = string> = {
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
