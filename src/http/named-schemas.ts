import type { TSchema } from 'typebox'

/** Gives a schema the name that the OpenAPI document, and so a generated client, has for it. */
export function named<S extends TSchema>(name: string, schema: S): S {
  return Object.assign(schema, { title: name })
}

/** A schema whose named parts are references, each of them put among `components` once. */
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
