import type { SourcePosition } from './workflow.ts'

/** What YAML says, with where it says it. Aliases lead to the very node of their anchor. */
export type SourceNode = ScalarNode | ListNode | MapNode

export type ScalarNode = {
  kind: 'scalar'
  value: string | number | boolean | null
  place: SourcePosition
  /** Where its text begins: within the quotes, below the `|`. */
  textPlace: SourcePosition
}

type ListNode = { kind: 'list'; items: SourceNode[]; place: SourcePosition }

/** Its keys are texts, and all different. */
export type MapNode = { kind: 'map'; entries: MapEntry[]; place: SourcePosition }

export type MapEntry = { key: string; keyPlace: SourcePosition; value: SourceNode }
