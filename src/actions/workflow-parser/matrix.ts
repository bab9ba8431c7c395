import type { Json } from '#base/json.ts'

/** The values of one job of a matrix by name, and a one-line label of them, unmasked and of any length. */
export type Combination = { values: Record<string, Json>; label: string }

/** A matrix that cannot be expanded; the message says why. */
export class MatrixError extends Error {
  override readonly name = 'MatrixError'
}

/** As on GitHub. */
export const maxMatrixJobs = 256

/**
 * Expands an evaluated matrix as GitHub does: all combinations of the vectors in their order, without those that
 * match `exclude`; then each object of `include` is added to every combination whose original values it does not
 * change, or else becomes another combination. Throws a MatrixError, also for more than `max` jobs.
 */
export function expandMatrix(matrix: Json, max = maxMatrixJobs): Combination[] {
  const { include, exclude, ...vectors } = asObject(matrix, 'The matrix')
  const keys = Object.keys(vectors)
  const named = (added: Record<string, Json>) => withKeysOf(added, keys)
  const excludes = asObjects(exclude, 'exclude', max).map(named)
  const originals = combine(vectors, max).filter((values) => !isExcluded(values, excludes))
  const originalKeys = new Set(keys)
  const expanded = originals.map((values) => ({ ...values }))
  const labels = originals.map((values) => labelOf(keys.map((key) => values[key] ?? null)))
  for (const added of asObjects(include, 'include', max).map(named)) {
    const fits = originals.flatMap((values, index) =>
      agrees(values, added, originalKeys) ? [index] : [],
    )
    for (const index of fits) Object.assign(expanded[index] ?? {}, added)
    if (fits.length > 0) continue
    expanded.push({ ...added })
    labels.push(labelOf(Object.values(added)))
    assertCount(expanded.length, max)
  }
  if (expanded.length === 0) throw new MatrixError('The matrix has no combinations.')
  return expanded.map((values, index) => ({ values, label: labels[index] ?? '' }))
}

// The first vector varies slowest.
function combine(vectors: Record<string, Json>, max: number): Record<string, Json>[] {
  const lists = Object.entries(vectors)
  if (lists.length === 0) return []
  let combinations: Record<string, Json>[] = [{}]
  for (const [key, list] of lists) {
    if (!Array.isArray(list)) throw new MatrixError(`The matrix's ${key} is not a list of values.`)
    if (list.length === 0) throw new MatrixError(`The matrix's ${key} has no values.`)
    assertCount(combinations.length * list.length, max)
    combinations = combinations.flatMap((values) =>
      list.map((value) => ({ ...values, [key]: value })),
    )
  }
  return combinations
}

/** As on GitHub, names are the same without regard to case; those of the vectors count. */
function withKeysOf(added: Record<string, Json>, keys: readonly string[]): Record<string, Json> {
  const known = new Map(keys.map((key) => [key.toLowerCase(), key]))
  return Object.fromEntries(
    Object.entries(added).map(([key, value]) => [known.get(key.toLowerCase()) ?? key, value]),
  )
}

function isExcluded(values: Record<string, Json>, excludes: Record<string, Json>[]): boolean {
  return excludes.some((excluded) => {
    const entries = Object.entries(excluded)
    return (
      entries.length > 0 &&
      entries.every(([key, value]) => key in values && covers(values[key] ?? null, value))
    )
  })
}

function agrees(
  values: Record<string, Json>,
  added: Record<string, Json>,
  originalKeys: Set<string>,
): boolean {
  return Object.entries(added).every(
    ([key, value]) => !originalKeys.has(key) || isSame(values[key] ?? null, value),
  )
}

// An object pattern matches objects that have at least its values.
function covers(value: Json, pattern: Json): boolean {
  if (!isObject(value) || !isObject(pattern)) return isSame(value, pattern)
  return Object.entries(pattern).every(
    ([key, part]) => key in value && covers(value[key] ?? null, part),
  )
}

function isSame(one: Json, other: Json): boolean {
  return toText(one) === toText(other) || toText(one).toLowerCase() === toText(other).toLowerCase()
}

function labelOf(values: Json[]): string {
  return values.flatMap(leavesOf).join(', ')
}

function leavesOf(value: Json): string[] {
  if (value === null || typeof value !== 'object') return [toText(value)]
  return Object.values(value).flatMap(leavesOf)
}

// Each value is compared with those of many combinations.
const texts = new WeakMap<object, string>()

function toText(value: Json): string {
  if (value === null) return ''
  if (typeof value !== 'object') return String(value)
  const text = texts.get(value) ?? JSON.stringify(value)
  texts.set(value, text)
  return text
}

function asObjects(value: Json | undefined, name: string, max: number): Record<string, Json>[] {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) throw new MatrixError(`The matrix's ${name} is not a list.`)
  assertCount(value.length, max)
  return value.map((entry) => asObject(entry, `An entry of the matrix's ${name}`))
}

function asObject(value: Json, subject: string): Record<string, Json> {
  if (!isObject(value)) throw new MatrixError(`${subject} is not an object of names and values.`)
  return value
}

function isObject(value: Json): value is Record<string, Json> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function assertCount(count: number, max: number): void {
  if (count > max) throw new MatrixError(`The matrix has more than ${max} jobs.`)
}
