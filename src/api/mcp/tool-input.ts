import type { JsonRoute, OperationInput } from '#http/route.ts'
import { invalid } from '#http/validation.ts'
import type { McpTool } from './mcp-tools.ts'

const argumentMaxLength = 1000

type ObjectSchema = { properties?: Record<string, object>; required?: string[] }

/** The JSON schema of a tool's arguments: the parameters of the path and the query, and the fields of the body. */
type InputSchema = {
  type: 'object'
  properties: Record<string, object>
  required: string[]
  additionalProperties: false
}

export function toInputSchema(tool: McpTool, route: JsonRoute): InputSchema {
  const path = Object.values(tool.pathArguments ?? {})
  const query: ObjectSchema = route.query ?? {}
  const body: ObjectSchema = route.body ?? {}
  const ofPath = path.map(({ name, description }) => [name, { type: 'string', description }])
  const fields = [
    ...Object.entries(query.properties ?? {}),
    ...Object.entries(body.properties ?? {}),
  ]
  const accepted = fields.filter(([name]) => !tool.omitted?.includes(name))
  return {
    type: 'object',
    properties: {
      ...Object.fromEntries(ofPath),
      ...Object.fromEntries(accepted.map(([name, schema]) => [name, describe(tool, name, schema)])),
    },
    required: [
      ...path.map(({ name }) => name),
      ...(query.required ?? []),
      ...(body.required ?? []),
    ],
    additionalProperties: false,
  }
}

function describe(tool: McpTool, name: string, schema: object): object {
  const fallback = tool.defaults?.[name]
  const description =
    name === 'cursor' ? 'the cursor that the previous page gives for the next page' : undefined
  return {
    ...schema,
    ...(description && { description }),
    ...(fallback !== undefined && { default: fallback }),
  }
}

/**
 * Converts the arguments of a tool to the input of its operation, which checks rights before it validates them. Throws
 * `invalid_request` for arguments that the tool does not have.
 */
export function toOperationInput(
  tool: McpTool,
  route: JsonRoute,
  args: Record<string, unknown>,
): OperationInput {
  const { properties } = toInputSchema(tool, route)
  const unknown = Object.keys(args).filter((name) => !Object.hasOwn(properties, name))
  if (unknown.length > 0) {
    const takes = Object.keys(properties).join(', ') || 'none'
    const detail = `is not an argument of ${tool.name}; it takes ${takes}.`
    throw invalid(
      unknown.slice(0, 20).map((name) => ({ pointer: `/${name.slice(0, 200)}`, detail })),
    )
  }
  const values: Record<string, unknown> = { ...tool.defaults, ...args }
  const params: Record<string, string> = {}
  for (const [parameter, { name, description }] of Object.entries(tool.pathArguments ?? {})) {
    params[parameter] = toPathParameter(values[name], { name, description })
    delete values[name]
  }
  const inQuery = (route.query ?? {}) as ObjectSchema
  const query = new URLSearchParams()
  for (const name of Object.keys(inQuery.properties ?? {})) {
    if (values[name] !== undefined) query.set(name, toParameter(name, values[name]))
    delete values[name]
  }
  return { params, query, body: route.body && values }
}

function toPathParameter(
  value: unknown,
  { name, description }: { name: string; description: string },
): string {
  if (typeof value === 'string' && value !== '' && value.length <= argumentMaxLength)
    return value.toWellFormed()
  const detail =
    value === undefined ? `is required: ${description}.` : `must be the ${description}.`
  throw invalid([{ pointer: `/${name}`, detail }])
}

function toParameter(name: string, value: unknown): string {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean')
    return String(value)
  throw invalid([{ pointer: `/${name}`, detail: 'must be text, a number or a boolean.' }])
}
