import type { Json } from '#base/json.ts'

/** Serializes a value as JSON. Lone surrogates, which UTF-8 cannot encode, become U+FFFD. */
export function toText(value: Json): string {
  return JSON.stringify(value, (_name, member) =>
    typeof member === 'string' ? member.toWellFormed() : member,
  )
}
