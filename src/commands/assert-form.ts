import type { TextForm } from '../access/names.ts'

/** Refuses a text of another form; `what` names it, with its article. */
export function assertForm({ pattern, description }: TextForm, what: string, text: string): void {
  if (new RegExp(pattern, 'u').test(text)) return
  throw new Error(`${JSON.stringify(text)} is not accepted; ${what} is ${description}.`)
}
