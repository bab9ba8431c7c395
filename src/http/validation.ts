import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv'
import type { TSchema } from 'typebox'
import { type FieldError, Problem } from '../base/problem.ts'

// All errors are reported at once; the schemas bound their number.
const options = { allErrors: true, verbose: true, allowUnionTypes: true }
// The schemas are constants, so they need not be checked against the meta-schema at every start.
const ajv = new Ajv({ ...options, meta: false, validateSchema: false })

const compiled = new WeakMap<TSchema, ValidateFunction>()

/** Validates a body strictly: no conversions, no dropped fields. */
export function checkBody(schema: TSchema | undefined, body: unknown): unknown {
  if (schema === undefined) return refuseAnyBody(body)
  if (body === undefined && isOptional(schema)) return {}
  if (body === undefined) {
    throw new Problem('invalid_request', `A JSON body is required; its fields are ${list(schema)}.`)
  }
  refuseExcess(body)
  return check(schema, body)
}

// If all fields are optional, so is the body.
function isOptional(schema: TSchema): boolean {
  return 'required' in schema ? Object(schema.required).length === 0 : 'properties' in schema
}

/** Validates a query string and converts its values to the types of the schema. */
export function checkQuery(schema: TSchema | undefined, query: URLSearchParams): unknown {
  if (schema === undefined) {
    assertParameters(query)
    return {}
  }
  // A query's schema is an object whose properties are its parameters.
  const { properties = {} } = schema as { properties?: Record<string, TSchema> }
  const values: Record<string, unknown> = {}
  for (const key of new Set(query.keys())) {
    const all = query.getAll(key)
    values[key] = all.length > 1 ? all : toValue(properties[key], all[0] ?? '')
  }
  return check(schema, values, unknownParameters(query, Object.keys(properties)))
}

const booleans: Record<string, boolean> = { true: true, false: false, 1: true, 0: false }

/** Converts a parameter to the type of its schema; an invalid one is left for the validation to reject. */
function toValue(schema: TSchema | undefined, text: string): unknown {
  const { type } = Object(schema) as { type?: string }
  if (type === 'integer' && /^-?\d{1,15}$/.test(text)) return Number(text)
  if (type === 'boolean' && Object.hasOwn(booleans, text)) return booleans[text]
  return text
}

/** Rejects unknown parameters. */
export function assertParameters(query: URLSearchParams, known: readonly string[] = []): void {
  const unknown = unknownParameters(query, known)
  if (unknown.length > 0) throw invalid(unknown)
  const repeated = known.filter((name) => query.getAll(name).length > 1)
  if (repeated.length > 0) {
    throw invalid(
      repeated.map((name) => ({ pointer: `/${name}`, detail: 'is given more than once.' })),
    )
  }
}

const none: FieldError[] = []

function unknownParameters(query: URLSearchParams, known: readonly string[]): FieldError[] {
  // Fast path for the usual case.
  if (query.keys().every((name) => known.includes(name))) return none
  const takes = known.length === 0 ? 'it takes none' : `it takes ${known.join(', ')}`
  const unknown = [...new Set(query.keys())].filter((name) => !known.includes(name))
  return unknown.map((name) => ({
    pointer: `/${escapePointer(name)}`,
    detail: `is not a parameter of this request; ${takes}.`,
  }))
}

function check(schema: TSchema, value: unknown, others: FieldError[] = []): unknown {
  const validate = compiled.get(schema) ?? ajv.compile(schema)
  compiled.set(schema, validate)
  const errors = validate(value) ? [] : withoutBranches(validate.errors ?? []).map(toFieldError)
  if (errors.length + others.length === 0) return value
  // One error per value, even if it violates several rules.
  const byPointer = new Map([...others, ...errors].reverse().map((error) => [error.pointer, error]))
  throw invalid([...byPointer.values()].reverse())
}

// Omits the errors of the branches of a union; the error of the union itself is enough.
function withoutBranches(errors: ErrorObject[]): ErrorObject[] {
  const unions = errors.filter(({ keyword }) => keyword === 'anyOf')
  return errors.filter(
    (error) => !unions.some((union) => error.schemaPath.startsWith(`${union.schemaPath}/`)),
  )
}

const maxItems = 1000

// All errors are reported, so the number of fields is bounded.
function refuseExcess(body: unknown): void {
  if (typeof body !== 'object' || body === null) return
  for (const part of [body, ...Object.values(body)]) {
    if (typeof part !== 'object' || part === null) continue
    if (Object.keys(part).length <= maxItems) continue
    throw new Problem('invalid_request', `The body has more than ${maxItems} fields or items.`)
  }
}

function refuseAnyBody(body: unknown): undefined {
  if (body === undefined) return undefined
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new Problem('invalid_request', 'This request does not accept a body.')
  }
  refuseExcess(body)
  const errors = Object.keys(body).map((key) => ({
    pointer: `/${escapePointer(key)}`,
    detail: 'is not a field of this request, which takes no body.',
  }))
  if (errors.length > 0) throw invalid(errors)
  return undefined
}

/** Creates the Problem for invalid fields; its detail names all of them. */
export function invalid(errors: FieldError[]): Problem {
  const shown = errors.slice(0, 20)
  const detail = shown.map((fault) => `${fault.pointer || 'The body'} ${fault.detail}`).join(' ')
  return new Problem('invalid_request', detail, { errors: shown })
}

function toFieldError(error: ErrorObject): FieldError {
  const { keyword, instancePath, params, parentSchema, message } = error
  if (keyword === 'additionalProperties') {
    const pointer = `${instancePath}/${escapePointer(params.additionalProperty)}`
    return {
      pointer,
      detail: `is not a field of this request; it takes ${list(parentSchema as { properties?: unknown })}.`,
    }
  }
  if (keyword === 'required') {
    const pointer = `${instancePath}/${escapePointer(params.missingProperty)}`
    const missing = parentSchema?.properties?.[params.missingProperty]
    return { pointer, detail: `is required: ${missing?.description ?? 'a value'}.` }
  }
  if (keyword === 'type' && instancePath === '' && parentSchema?.properties)
    return {
      pointer: '',
      detail: `must be a JSON object; its fields are ${list(parentSchema as { properties?: unknown })}.`,
    }
  const accepts = accepted(error)
  const detail = accepts ? `is not accepted; it takes ${accepts}.` : `${message ?? 'is not valid'}.`
  return { pointer: instancePath, detail }
}

function accepted({ keyword, params, parentSchema }: ErrorObject): string | undefined {
  const description: string | undefined = parentSchema?.description
  if (keyword === 'anyOf' && !description) return parentSchema?.anyOf?.map(describe).join(' or ')
  if (keyword !== 'enum') return description
  // A description of a field need not list its values.
  const words: string[] = params.allowedValues.map(String)
  if (description && words.every((word) => description.includes(word))) return description
  return words.length === 1 ? words[0] : `one of ${words.join(', ')}`
}

function describe({ description, type }: { description?: string; type?: string }): string {
  return description ?? (type === 'null' ? 'null' : `a value of the type ${type}`)
}

function list(schema: { properties?: unknown } | undefined): string {
  return Object.keys(Object(schema?.properties)).join(', ')
}

// RFC 6901, section 3.
function escapePointer(key: string): string {
  return key.replaceAll('~', '~0').replaceAll('/', '~1').slice(0, 200)
}

/** The query of a request. */
export function queryOf({ url }: { url: string }): URLSearchParams {
  const start = url.indexOf('?')
  return new URLSearchParams(start === -1 ? '' : url.slice(start + 1))
}
