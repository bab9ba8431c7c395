import { printable } from '#base/format.ts'
import { toSafeJson } from '#base/safe-text.ts'
import type { Work } from './operation.ts'

/** Prints a sentence for people, or the JSON of a response. */
export function showResult(
  { json, terminal }: Pick<Work, 'json' | 'terminal'>,
  body: unknown,
  sentence: string,
): void {
  terminal.out(json ? toSafeJson(body) : `${printable(sentence)}\n`)
}
