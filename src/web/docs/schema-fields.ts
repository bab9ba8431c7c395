import type { TSchema } from 'typebox'

/** A field of a body or response; those of objects within it have names such as `author.name` and `files[].path`. */
export type SchemaField = {
  name: string
  type: string
  description: string
  isRequired: boolean
}

/** A JSON schema, as far as the schemas of the API use it. */
export type JsonSchema = {
  type?: string | string[]
  format?: string
  const?: unknown
  enum?: unknown[]
  pattern?: string
  minimum?: number
  examples?: unknown[]
  description?: string
  properties?: Record<string, JsonSchema>
  patternProperties?: Record<string, JsonSchema>
  additionalProperties?: JsonSchema | boolean
  required?: string[]
  items?: JsonSchema
  anyOf?: JsonSchema[]
}

const maxDepth = 4

/** Lists the fields of an object, with those of its parts. */
export function fieldsOf(schema: TSchema | undefined): SchemaField[] {
  // A schema is its own JSON.
  return schema === undefined ? [] : fieldsBelow(schema as JsonSchema, '', 0)
}

function fieldsBelow(schema: JsonSchema, prefix: string, depth: number): SchemaField[] {
  const { properties = {}, required = [], items } = mainOf(schema)
  if (depth > maxDepth) return []
  if (items) return fieldsBelow(items, `${prefix}[]`, depth + 1)
  return Object.entries(properties).flatMap(([key, field]) => {
    const name = prefix === '' ? key : `${prefix}.${key}`
    const { description = mainOf(field).description ?? '' } = field
    const own = { name, type: typeOf(field), description, isRequired: required.includes(key) }
    return [own, ...fieldsBelow(field, name, depth + 1)]
  })
}

/** The alternative of a union that is not null. */
export function mainOf(schema: JsonSchema): JsonSchema {
  const main = schema.anyOf?.find(({ type }) => type !== 'null')
  return main === undefined ? schema : mainOf(main)
}

/** The type of a value in words: `array of string`, `string or null`. */
export function typeOf(schema: JsonSchema): string {
  const { type, anyOf, items, enum: values } = schema
  if (anyOf) return [...new Set(anyOf.map(typeOf))].join(' or ')
  if (values)
    return [...new Set(values.map((value) => (value === null ? 'null' : typeof value)))].join(
      ' or ',
    )
  const name = [type ?? 'any'].flat().join(' or ')
  return items ? `${name} of ${typeOf(items)}` : name
}
