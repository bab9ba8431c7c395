import { data } from '@actions/expressions'
import type { Json } from '#base/json.ts'
import { type EvaluationBudget, EvaluationError, nodeCost } from './scope.ts'

type Pair = ReturnType<data.Dictionary['pairs']>[number]

/** The maximum nesting of lists and objects in a value. */
const maxDepth = 100

/** The maximum names of an object. */
const maxNames = 10_000

/**
 * An object with arbitrary names, including `constructor` and `__proto__`, which the library's own loses. Lookup is
 * case-insensitive unless it is `exact`; of names that differ only in case, the first one counts.
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
    // A filter queries every object of a list; a name of a million letters must not be folded for each.
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

/** Converts a value for the library. Throws EvaluationError if it is too large; `exact` applies to its top level. */
export function toData(
  value: Json,
  budget: EvaluationBudget,
  { exact = false, depth = 0 } = {},
): data.ExpressionData {
  budget.spend(nodeCost)
  if (value === null) return new data.Null()
  if (typeof value === 'string') return new data.StringData(value)
  if (typeof value === 'number') return new data.NumberData(value)
  if (typeof value === 'boolean') return new data.BooleanData(value)
  if (depth === maxDepth) {
    throw new EvaluationError(`The value has more than ${maxDepth} levels.`)
  }
  const below = { depth: depth + 1 }
  if (Array.isArray(value)) {
    const list = new data.Array()
    for (const item of value) list.add(toData(item, budget, below))
    return list
  }
  const names = Object.keys(value)
  if (names.length > maxNames) {
    throw new EvaluationError(`An object of the value has more than ${maxNames} names.`)
  }
  // The tables of an object cost memory even when empty.
  budget.spend(3 * nodeCost)
  const mapping = new Mapping({ exact })
  for (const name of names) mapping.add(name, toData(value[name] ?? null, budget, below))
  return mapping
}

/** Converts a value of the library to plain JSON. */
export function toPlainJson(value: data.ExpressionData): Json {
  if (value instanceof data.Array) return value.values().map(toPlainJson)
  if (value instanceof data.Dictionary) {
    return Object.fromEntries(value.pairs().map(({ key, value }) => [key, toPlainJson(value)]))
  }
  return value instanceof data.Null ? null : value.value
}

/** The cost of reading a value. */
export function costOf(value: data.ExpressionData): number {
  if (value instanceof data.Array) return value.values().length
  if (!(value instanceof data.StringData)) return 1
  // The library compares texts with this letter piece by piece.
  return value.value.length * (value.value.includes('ı') ? 8 : 1)
}
