import type { Json } from '#base/json.ts'
import { splitTemplate } from '../expressions/template-parts.ts'
import { expandMatrix, MatrixError, maxMatrixJobs } from '../matrix.ts'
import { type FaultList, quoted } from '../source/fault-list.ts'
import { createUniqueness, type Field, kindOf, openFields, openMap } from '../source/fields.ts'
import type { MapNode, SourceNode } from '../source/source-text.ts'
import type { Matrix, SourcePosition, Strategy, Template, TemplateTree } from '../workflow.ts'
import {
  hasExpression,
  readExpression,
  readFlag,
  readPositive,
  readTemplateTree,
} from './values.ts'

const shape = { name: '"strategy"', keys: ['matrix', 'fail-fast', 'max-parallel'] as const }

const noStrategy = { matrix: undefined, failFast: true, maxParallel: undefined }

/** The `strategy` of a job; GitHub's defaults where there is none. */
export function readStrategy(field: Field | undefined, faults: FaultList): Strategy {
  if (hasExpression(field?.node)) return strategyOf(field.node, field, faults)
  const fields = field && openFields(field, shape, faults)
  if (!fields) return noStrategy
  const matrix = fields.get('matrix')
  return {
    matrix: matrix && readMatrix(matrix, faults),
    failFast: readFlag(fields.get('fail-fast'), 'job.strategy', faults) ?? true,
    maxParallel: readPositive(fields.get('max-parallel'), 'job.strategy', faults, {
      isComplete: true,
    }),
  }
}

/** The parts of a strategy that is an expression. */
function strategyOf(node: { value: string }, field: Field, faults: FaultList): Strategy {
  const [part, ...others] = splitTemplate(node.value)
  const whole = readExpression(field, 'job.strategy', faults, '')
  if (part?.kind !== 'expression' || others.length > 0 || !whole) {
    faults.add(field.node.position, '"strategy" is a string, not a mapping.', 'Write "matrix:".')
    return noStrategy
  }
  const of = (name: string) => `(${part.text})['${name}']`
  const toTemplate = (text: string) => ({ text: `\${{ ${text} }}`, position: whole.position })
  const failFast = `case(${of('fail-fast')} == null, true, ${of('fail-fast')})`
  return {
    matrix: toTemplate(of('matrix')),
    failFast: toTemplate(failFast),
    maxParallel: toTemplate(of('max-parallel')),
  }
}

function readMatrix(field: Field, faults: FaultList): Matrix | undefined {
  if (field.node.kind === 'scalar') {
    const instead = 'Write "name: [values]" lines, or an expression that returns such a mapping.'
    return readExpression(field, 'job.strategy', faults, instead)
  }
  const map = openMap(field, faults, 'Write "name: [values]" lines.')
  if (!map) return undefined
  if (map.entries.length === 0) {
    faults.add(map.position, 'The matrix is empty.', 'Write "name: [values]" lines, or omit it.')
  }
  const matrix = {
    vectors: readVectors(map, faults),
    include: readCombinations(map, 'include', faults),
    exclude: readCombinations(map, 'exclude', faults),
  }
  checkMatrixSize(matrix, field.keyPosition, faults)
  return matrix
}

function readVectors(map: MapNode, faults: FaultList): Record<string, TemplateTree> {
  const unique = createUniqueness(faults)
  const vectors = map.entries.filter(({ key }) => key !== 'include' && key !== 'exclude')
  const read = vectors.flatMap(({ key, keyPosition, value }) => {
    unique.check(key, keyPosition)
    const tree = readVector({ label: quoted(key), node: value, keyPosition }, faults)
    return tree === undefined ? [] : [[key, tree] as const]
  })
  return Object.fromEntries(read)
}

function readVector(field: Field, faults: FaultList): TemplateTree | undefined {
  const { node, label } = field
  const instead = 'Write a list of values, or an expression that returns one.'
  if (node.kind === 'scalar') return readExpression(field, 'job.strategy', faults, instead)
  if (node.kind === 'map') {
    return void faults.add(node.position, `${label} is a mapping, not a list.`, instead)
  }
  if (node.items.length === 0) {
    return void faults.add(node.position, `${label} has no values.`, instead)
  }
  return readTemplateTree(node, 'job.strategy', faults)
}

function readCombinations(
  map: MapNode,
  key: 'include' | 'exclude',
  faults: FaultList,
): TemplateTree | undefined {
  const entry = map.entries.find((candidate) => candidate.key === key)
  if (!entry) return undefined
  const { value: node, keyPosition } = entry
  const instead = 'Write a list of mappings, or an expression that returns one.'
  if (node.kind === 'scalar') {
    return readExpression(
      { label: quoted(key), node, keyPosition },
      'job.strategy',
      faults,
      instead,
    )
  }
  if (node.kind === 'map') {
    return void faults.add(node.position, `${quoted(key)} is a mapping, not a list.`, instead)
  }
  for (const item of node.items) checkCombination(item, key, faults)
  return readTemplateTree(node, 'job.strategy', faults)
}

function checkCombination(item: SourceNode, key: string, faults: FaultList): void {
  if (item.kind === 'map' || hasExpression(item)) return
  const message = `An item of ${quoted(key)} is ${kindOf(item)}, not a mapping.`
  faults.add(item.position, message, 'Write "- name: value".')
}

// Above this number combinations are not counted individually.
const maxCombinations = 10_000
const maxComparisons = 200_000

/** Reports a matrix without expressions that has too many jobs. Others are counted when they run. */
function checkMatrixSize(
  { vectors, include = null, exclude = null }: Exclude<Matrix, Template>,
  position: SourcePosition,
  faults: FaultList,
): void {
  const plain = toPlain({ tree: { ...vectors, include, exclude } })
  const size = plain === undefined ? 0 : matrixSize(Object(plain))
  if (size <= maxMatrixJobs) return
  const count = size > maxCombinations ? 'too many' : size
  const message = `The matrix expands to ${count} jobs; the maximum is ${maxMatrixJobs}.`
  faults.add(position, message, 'Use fewer values, or split the job.')
}

function matrixSize(matrix: Record<string, Json>): number {
  const { include, exclude, ...vectors } = matrix
  const lengthOf = (list: Json | undefined) => (Array.isArray(list) ? list.length : 0)
  const size = Object.values(vectors).reduce<number>((all, list) => all * lengthOf(list), 1)
  const comparisons = size * (lengthOf(include) + lengthOf(exclude))
  if (size > maxCombinations || comparisons > maxComparisons) return Number.POSITIVE_INFINITY
  try {
    return expandMatrix(matrix, Number.POSITIVE_INFINITY).length
  } catch (error) {
    // Other faults of the matrix have been reported.
    if (error instanceof MatrixError) return 0
    throw error
  }
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
