import type { Json } from '#base/json.ts'
import type { FaultList } from './fault-list.ts'
import type { Matrix, SourcePosition, Template, TemplateTree } from './workflow.ts'

const maxJobs = 256
// Above this number combinations are not counted individually.
const maxCombinations = 10_000
const maxComparisons = 200_000

/** A job's values by name, each as JSON. */
type Combination = Record<string, string>

/** Reports a matrix without expressions that has too many jobs. Others are counted when they run. */
export function checkMatrixSize(
  matrix: Exclude<Matrix, Template>,
  position: SourcePosition,
  faults: FaultList,
): void {
  const size = matrixSize(matrix)
  if (size === undefined || size <= maxJobs) return
  const count = size > maxCombinations ? 'too many' : size
  const message = `The matrix expands to ${count} jobs; the maximum is ${maxJobs}.`
  faults.add(position, message, 'Use fewer values, or split the job.')
}

/** As on GitHub: an entry of `include` that matches no combination adds a job. */
function matrixSize({ vectors, include, exclude }: Exclude<Matrix, Template>): number | undefined {
  const lists = new Map<string, string[]>()
  let size = 1
  for (const [name, tree] of Object.entries(vectors)) {
    const values = toPlain(tree)
    if (!Array.isArray(values)) return undefined
    lists.set(
      name,
      values.map((value) => JSON.stringify(value)),
    )
    size *= values.length
  }
  const excluded = exclude === undefined ? [] : plainCombinations(exclude)
  const included = include === undefined ? [] : plainCombinations(include)
  if (!excluded || !included) return undefined
  if (size > maxCombinations) return Number.POSITIVE_INFINITY
  if (size * (excluded.length + included.length) > maxComparisons) return Number.POSITIVE_INFINITY
  const left = combinations(lists).filter(
    (one) => !excluded.some((pattern) => matches(one, pattern)),
  )
  const own = included.filter((entry) => {
    const shared = Object.entries(entry).filter(([name]) => lists.has(name))
    return !left.some((one) => matches(one, Object.fromEntries(shared)))
  })
  return left.length + own.length
}

function combinations(lists: Map<string, string[]>): Combination[] {
  if (lists.size === 0) return []
  return [...lists].reduce<Combination[]>(
    (all, [name, values]) =>
      all.flatMap((one) => values.map((value) => ({ ...one, [name]: value }))),
    [{}],
  )
}

function matches(combination: Combination, pattern: Combination): boolean {
  return Object.entries(pattern).every(
    ([name, value]) => Object.hasOwn(combination, name) && combination[name] === value,
  )
}

function plainCombinations(tree: TemplateTree): Combination[] | undefined {
  const list = toPlain(tree)
  if (!Array.isArray(list)) return undefined
  return list.map((item) =>
    Object.fromEntries(
      Object.entries(item ?? {}).map(([name, value]) => [name, JSON.stringify(value)]),
    ),
  )
}

/** The literal value of a tree; undefined when it has an expression. */
function toPlain(tree: TemplateTree): Json | undefined {
  if (tree === null || typeof tree !== 'object') return tree
  if (Array.isArray(tree)) {
    const items = tree.map(toPlain).filter((item) => item !== undefined)
    return items.length === tree.length ? items : undefined
  }
  if ('text' in tree) return tree.text.includes('${{') ? undefined : tree.text
  const entries: [string, Json][] = []
  for (const [name, value] of Object.entries(tree.tree)) {
    const plain = toPlain(value)
    if (plain === undefined) return undefined
    entries.push([name, plain])
  }
  return Object.fromEntries(entries)
}
