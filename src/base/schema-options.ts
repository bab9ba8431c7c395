/** Makes an object schema reject unknown fields. */
export const closed = { additionalProperties: false } as const

/** The form of a text, for JSON schemas and the command line. */
export type TextForm = { description: string; 'x-form': string; pattern: string }

/** Schema options of a text: the pattern, and what it accepts in words. The description may be replaced by a purpose. */
export function textForm(form: string, pattern: string): TextForm {
  return { description: form, 'x-form': form, pattern }
}
