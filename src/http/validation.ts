import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv'
import type { TSchema } from 'typebox'
import { type FieldError, Problem, refusedName } from '#base/problem.ts'
import { type Accepting, acceptedBy, fieldNamesOf } from './accepted-values.ts'

// All errors are reported at once; the schemas bound their number.
const options = { allErrors: true, verbose: true, allowUnionTypes: true, keywords: ['x-form'] }
// The schemas are constants, so they need not be checked against the meta-schema at every start.
const ajv = new Ajv({ ...options, meta: false, validateSchema: false })

const compiled = new WeakMap<TSchema, ValidateFunction>()

/** Validates a body strictly: no conversions, no dropped fields. */
export function checkBody(schema: TSchema | undefined, body: unknown): unknown {
  if (schema === undefined) return refuseAnyBody(body)
  if (body === undefined && isOptional(schema)) return {}
  if (body === undefined) {
    throw new Problem(
      'invalid_request',
      `A JSON body is required; its fields are ${fieldNamesOf(schema)}.`,
    )
  }
  refuseExcess(body)
  return check(schema, body, atPointer)
}

/** Whether a request may be sent without its body: as an empty object, it is accepted. */
export function isOptional(schema: TSchema): boolean {
  const { properties, required = [], minProperties = 0 } = Object(schema)
  return properties !== undefined && required.length === 0 && minProperties === 0
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
  return check(schema, values, atParameter, unknownParameters(query, Object.keys(properties)))
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
  // Fast path for the usual case: all are known, and none is repeated.
  if (known.filter((name) => query.has(name)).length === query.size) return
  const unknown = unknownParameters(query, known)
  if (unknown.length > 0) throw invalid(unknown)
  const repeated = known.filter((name) => query.getAll(name).length > 1)
  if (repeated.length > 0) throw invalid(repeated.map((name) => ofQuery(name, isRepeated)))
}

const isRepeated = 'is given more than once.'
const none: FieldError[] = []

function unknownParameters(query: URLSearchParams, known: readonly string[]): FieldError[] {
  // Fast path for the usual case.
  if (query.keys().every((name) => known.includes(name))) return none
  const takes = known.length === 0 ? 'none' : known.join(', ')
  const unknown = [...new Set(query.keys())].filter((name) => !known.includes(name))
  return unknown.map((name) => ofQuery(name, `is unknown; this request takes ${takes}.`))
}

/** The error of a query parameter. */
export function ofQuery(name: string, detail: string): FieldError {
  return { parameter: name.slice(0, nameMaxLength), in: 'query', detail }
}

type Place = (path: readonly string[], detail: string) => FieldError

const atPointer: Place = (path, detail) => ({ pointer: path.map(toPart).join(''), detail })
const atParameter: Place = ([name = ''], detail) => ofQuery(name, detail)

function check(
  schema: TSchema,
  value: unknown,
  place: Place,
  others: FieldError[] = none,
): unknown {
  const validate = compiled.get(schema) ?? ajv.compile(schema)
  compiled.set(schema, validate)
  const found = validate(value) ? [] : withoutBranches(validate.errors ?? [])
  if (found.length + others.length === 0) return value
  const errors = found.map((error) => place(pathOf(error), detailOf(error, place)))
  // One error per value, even if it violates several rules.
  const byPlace = new Map([...others, ...errors].reverse().map((error) => [nameOf(error), error]))
  throw invalid([...byPlace.values()].reverse())
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
    pointer: toPart(key),
    detail: 'is not a field of this request, which takes no body.',
  }))
  if (errors.length > 0) throw invalid(errors)
  return undefined
}

/** Creates the Problem for invalid values; its detail names all of them. */
export function invalid(errors: FieldError[]): Problem {
  const shown = errors.slice(0, 20)
  const detail = shown.map((error) => `${nameOf(error)} ${error.detail}`).join(' ')
  return new Problem('invalid_request', detail, { errors: shown })
}

function nameOf(error: FieldError): string {
  if (error.pointer !== undefined) return error.pointer || 'The body'
  return `The ${error.in} parameter \`${error.parameter}\``
}

function pathOf({ keyword, instancePath, params }: ErrorObject): string[] {
  const path = instancePath.split('/').slice(1).map(fromPart)
  const inner = keyword === 'required' ? params.missingProperty : params.additionalProperty
  return inner === undefined ? path : [...path, inner]
}

function detailOf({ keyword, params, parentSchema, data }: ErrorObject, place: Place): string {
  // The schema that the value violates, as plain JSON Schema.
  const schema = parentSchema as Accepting
  switch (keyword) {
    case 'additionalProperties':
      return `is not a field of this request; it takes ${fieldNamesOf(schema)}.`
    case 'required':
      return `is required; it must be ${acceptedBy(schema.properties?.[params.missingProperty])}.`
    case 'minProperties':
      return `must have at least one of the fields ${fieldNamesOf(schema)}.`
    default:
      if (place === atParameter && Array.isArray(data)) return isRepeated
      return isName(keyword, schema) && typeof data === 'string'
        ? refusedName(data, acceptedBy(schema))
        : `must be ${acceptedBy(schema)}.`
  }
}

// Names are quoted; other texts may be long, or secret.
function isName(keyword: string, { anyOf }: Accepting): boolean {
  return (
    ['enum', 'const', 'pattern'].includes(keyword) ||
    (keyword === 'anyOf' && anyOf?.every((one) => one.const !== undefined) === true)
  )
}

const nameMaxLength = 200

// RFC 6901, section 3.
function toPart(key: string): string {
  return `/${key.replaceAll('~', '~0').replaceAll('/', '~1').slice(0, nameMaxLength)}`
}

function fromPart(part: string): string {
  return part.replaceAll('~1', '/').replaceAll('~0', '~')
}
