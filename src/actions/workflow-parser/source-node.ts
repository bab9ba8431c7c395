import type { SourcePosition } from './workflow.ts'

/** A YAML value with its position. Aliases refer to the node of their anchor itself. */
export type SourceNode = ScalarNode | ListNode | MapNode

export type ScalarNode = {
  kind: 'scalar'
  value: string | number | boolean | null
  position: SourcePosition
  /** The start of its text: within the quotes, below the `|`. */
  textPosition: SourcePosition
}

type ListNode = { kind: 'list'; items: SourceNode[]; position: SourcePosition }

/** Its keys are distinct texts. */
export type MapNode = { kind: 'map'; entries: MapEntry[]; position: SourcePosition }

export type MapEntry = { key: string; keyPosition: SourcePosition; value: SourceNode }
