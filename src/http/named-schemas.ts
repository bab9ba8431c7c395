import type { TSchema } from 'typebox'

/** Names a schema in the OpenAPI document, and so in generated clients. */
export function named<S extends TSchema>(name: string, schema: S): S {
  return Object.assign(schema, { title: name })
}

/** Replaces the named parts of a schema by references, and adds them to `components`. */
export function toReferences(schema: unknown, components: Record<string, object>): unknown {
  if (typeof schema !== 'object' || schema === null) return schema
  if (Array.isArray(schema)) return schema.map((part) => toReferences(part, components))
  const parts = Object.fromEntries(
    Object.entries(schema).map(([key, part]) => [key, toReferences(part, components)]),
  )
  const { title } = schema as { title?: unknown }
  if (typeof title !== 'string') return parts
  const known = components[title]
  if (known && JSON.stringify(known) !== JSON.stringify(parts))
    throw new Error(`Two schemas are called ${title}.`)
  components[title] = parts
  return { $ref: `#/components/schemas/${title}` }
}
