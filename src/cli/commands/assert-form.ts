import type { TextForm } from '#base/schema-options.ts'

/** Throws unless a text has a form; `subject` names the text, with its article. */
export function assertForm(
  { pattern, description }: TextForm,
  subject: string,
  text: string,
): void {
  if (new RegExp(pattern, 'u').test(text)) return
  throw new Error(`${JSON.stringify(text)} is not accepted; ${subject} is ${description}.`)
}
