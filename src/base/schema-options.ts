import { type TSchema, Type } from 'typebox'

/** Makes an object schema reject unknown fields. */
export const closed = { additionalProperties: false } as const

/** The form of a text, for JSON schemas and the command line. */
export type TextForm = { description: string; 'x-form': string; pattern: string }

/** Schema options of a text: the pattern, and what it accepts in words. The description may be replaced by a purpose. */
export function textForm(form: string, pattern: string): TextForm {
  return { description: form, 'x-form': form, pattern }
}

/** Schemas of fields that need no more than a description. */
export const field = {
  text: (description: string) => Type.String({ description }),
  texts: (description: string) => Type.Array(Type.String(), { description }),
  integer: (description: string) => Type.Integer({ description }),
  boolean: (description: string) => Type.Boolean({ description }),
  time: (description: string) =>
    Type.Integer({ description: `${description}, in milliseconds since the Unix epoch` }),
  orNull: <T extends TSchema>(schema: T, description?: string) =>
    Type.Union([schema, Type.Null()], description === undefined ? {} : { description }),
}
