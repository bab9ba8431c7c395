import { data } from '@actions/expressions'
import { type Allowance, EvaluationError, nodeCost } from './allowance.ts'
import type { Json } from './scope.ts'

type Pair = ReturnType<data.Dictionary['pairs']>[number]

/** Levels of lists and objects in one value. */
const depthMax = 100

/** Names of one object. */
const namesMax = 10_000

/**
 * An object whose names may be any, `constructor` and `__proto__` as well, which the library's own loses. Names are
 * looked up without regard to case, unless it is `exact`; of names that differ in nothing else the first counts.
 */
class Mapping extends data.Dictionary {
  readonly #entries = new Map<string, Pair>()
  readonly #isExact: boolean
  #longest = 0

  constructor({ exact = false } = {}) {
    super()
    this.#isExact = exact
  }

  override add(key: string, value: data.ExpressionData): void {
    const known = this.#fold(key)
    if (this.#entries.has(known)) return
    this.#entries.set(known, { key, value })
    this.#longest = Math.max(this.#longest, known.length)
  }

  override get(key: string): data.ExpressionData | undefined {
    // A filter asks every object of a list: a name of a million letters must not be folded for each.
    if (key.length > this.#longest) return undefined
    return this.#entries.get(this.#fold(key))?.value
  }

  override values(): data.ExpressionData[] {
    return this.pairs().map(({ value }) => value)
  }

  override pairs(): Pair[] {
    return [...this.#entries.values()]
  }

  #fold(key: string): string {
    return this.#isExact ? key : key.toLowerCase()
  }
}

/** A value as the library has it. Throws EvaluationFault where it is too large; `exact` is about the names of its first level. */
export function toData(
  value: Json,
  allowance: Allowance,
  { exact = false, depth = 0 } = {},
): data.ExpressionData {
  allowance.take(nodeCost)
  if (value === null) return new data.Null()
  if (typeof value === 'string') return new data.StringData(value)
  if (typeof value === 'number') return new data.NumberData(value)
  if (typeof value === 'boolean') return new data.BooleanData(value)
  if (depth === depthMax) {
    throw new EvaluationError(`The value has more than ${depthMax} levels.`)
  }
  const below = { depth: depth + 1 }
  if (Array.isArray(value)) {
    const list = new data.Array()
    for (const item of value) list.add(toData(item, allowance, below))
    return list
  }
  const names = Object.keys(value)
  if (names.length > namesMax) {
    throw new EvaluationError(`An object of the value has more than ${namesMax} names.`)
  }
  // Its tables are several objects, also when they are empty.
  allowance.take(3 * nodeCost)
  const mapping = new Mapping({ exact })
  for (const name of names) mapping.add(name, toData(value[name] ?? null, allowance, below))
  return mapping
}

/** The library's value as plain JSON. */
export function toJson(value: data.ExpressionData): Json {
  if (value instanceof data.Array) return value.values().map(toJson)
  if (value instanceof data.Dictionary) {
    return Object.fromEntries(value.pairs().map(({ key, value }) => [key, toJson(value)]))
  }
  return value instanceof data.Null ? null : value.value
}

/** What a value costs who looks at it. */
export function costOf(value: data.ExpressionData): number {
  if (value instanceof data.Array) return value.values().length
  if (!(value instanceof data.StringData)) return 1
  // The library compares texts piece by piece where they have this letter.
  return value.value.length * (value.value.includes('ı') ? 8 : 1)
}
