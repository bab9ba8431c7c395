/** The part of JSON Schema that the schemas of requests use. */
export type Accepting = {
  type?: string | string[]
  const?: unknown
  enum?: readonly unknown[]
  anyOf?: Accepting[]
  properties?: Record<string, Accepting>
  additionalProperties?: boolean | Accepting
  items?: Accepting
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  minItems?: number
  maxItems?: number
  maxProperties?: number
  uniqueItems?: boolean
  /** What is accepted, in words, where type and bounds do not say it, as with a pattern. */
  'x-form'?: string
}

/** What a schema accepts, in words that follow "it must be". */
export function acceptedBy(schema: Accepting = {}): string {
  const words = [...new Set(alternatives(schema))]
  const last = words.pop() ?? ''
  return words.length === 0 ? last : `${words.join(', ')} or ${last}`
}

function alternatives(schema: Accepting): string[] {
  const { type, anyOf, enum: values, 'x-form': form } = schema
  if (form !== undefined) return [form]
  if (schema.const !== undefined) return [String(schema.const)]
  if (values) return values.map(String)
  if (anyOf) return anyOf.flatMap(alternatives)
  if (Array.isArray(type)) return type.flatMap((one) => alternatives({ ...schema, type: one }))
  return type === 'boolean' ? ['true', 'false'] : [ofType(schema)]
}

function ofType(schema: Accepting): string {
  switch (schema.type) {
    case 'integer':
      return `an integer${numbersOf(schema.minimum, schema.maximum)}`
    case 'number':
      return `a number${numbersOf(schema.minimum, schema.maximum)}`
    case 'string':
      return `a string${sizeOf(schema.minLength, schema.maxLength, 'character')}`
    case 'array':
      return arrayOf(schema)
    case 'object':
      return objectOf(schema)
    default:
      return String(schema.type)
  }
}

/** The names of the fields of an object. */
export function fieldNamesOf({ properties = {} }: Accepting): string {
  return Object.keys(properties).join(', ')
}

function arrayOf({ minItems, maxItems, uniqueItems, items }: Accepting): string {
  const size = sizeOf(minItems, maxItems, uniqueItems ? 'different item' : 'item')
  return `an array${size}, each ${acceptedBy(items)}`
}

function objectOf(schema: Accepting): string {
  const { properties, maxProperties, additionalProperties: others } = schema
  if (properties) return `an object with the fields ${fieldNamesOf(schema)}`
  const size = sizeOf(0, maxProperties, 'field')
  return `an object${size}${typeof others === 'object' ? `, each ${acceptedBy(others)}` : ''}`
}

function numbersOf(min: number | undefined, max: number | undefined): string {
  if (min === undefined) return max === undefined ? '' : ` of at most ${max}`
  return max === undefined ? ` of at least ${min}` : ` from ${min} to ${max}`
}

function sizeOf(min = 0, max: number | undefined, unit: string): string {
  const plural = (count: number) => `${count} ${unit}${count === 1 ? '' : 's'}`
  if (max === undefined) return min === 0 ? '' : ` of at least ${plural(min)}`
  if (min === max) return ` of ${plural(max)}`
  return min === 0 ? ` of at most ${plural(max)}` : ` of ${min} to ${plural(max)}`
}
