import type { SourcePosition } from './workflow.ts'

/** A YAML value with its position. Aliases refer to the node of their anchor itself. */
export type SourceNode = ScalarNode | ListNode | MapNode

export type ScalarNode = {
  kind: 'scalar'
  value: string | number | boolean | null
  place: SourcePosition
  /** The start of its text: within the quotes, below the `|`. */
  textPlace: SourcePosition
}

type ListNode = { kind: 'list'; items: SourceNode[]; place: SourcePosition }

/** Its keys are distinct texts. */
export type MapNode = { kind: 'map'; entries: MapEntry[]; place: SourcePosition }

export type MapEntry = { key: string; keyPlace: SourcePosition; value: SourceNode }
