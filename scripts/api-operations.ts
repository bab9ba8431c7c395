import type { DescribedField, DescribedOperation } from '#cli/operations/operation-request.ts'
import type { Route } from '#http/route.ts'

type Schema = {
  type?: string | string[]
  const?: string
  enum?: string[]
  anyOf?: Schema[]
  items?: Schema
  properties?: Record<string, Schema>
}

/** Generates what a client knows of the routes: an operation a line, without those of Git and of runners. */
export function apiOperations(routes: Route[]): string {
  const lines = routes
    .filter(({ kind, tag }) => kind !== 'stream' && tag !== 'runners')
    .map((route) => `"${route.operationId}": ${JSON.stringify(describe(route))}`)
  return `{\n${lines.join(',\n')}\n}\n`
}

function describe(route: Route): DescribedOperation {
  const { method, path } = route
  // Schemas are JSON Schema.
  const fieldsOf = (schema: unknown) =>
    Object.fromEntries(
      Object.entries((schema as Schema).properties ?? {}).map(([name, one]) => [
        name,
        toField(one),
      ]),
    )
  return {
    method,
    path,
    ...(route.kind === 'json' && route.query && { query: fieldsOf(route.query) }),
    ...(route.kind === 'json' && route.body && { body: fieldsOf(route.body) }),
  }
}

function toField(schema: Schema): DescribedField {
  const { type = 'string', items, anyOf } = schema
  const types = anyOf ? anyOf.map((one) => one.type ?? 'string') : [type].flat()
  const choices = choicesOf(items ?? schema)
  const name = [...new Set(types)].join(' or ').replace('array', 'list')
  return { type: name, ...(choices && { choices }) }
}

function choicesOf({ enum: values, anyOf }: Schema): string[] | undefined {
  const constants = anyOf?.flatMap((one) => one.const ?? [])
  return values ?? (constants?.length === anyOf?.length ? constants : undefined)
}
