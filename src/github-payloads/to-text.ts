import type { Json } from '../workflow-parser/scope.ts'

/** The JSON of a value. Half a surrogate pair has no UTF-8; U+FFFD stands in its place. */
export function toText(value: Json): string {
  return JSON.stringify(value, (_name, one) => (typeof one === 'string' ? one.toWellFormed() : one))
}
