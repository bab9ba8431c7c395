import type { MatrixLabels } from '../expressions/never-true.ts'
import { isForeignLabel } from '../runner-labels.ts'
import type { FaultList } from '../source/fault-list.ts'
import { type Field, itemsOf, kindOf, openFields } from '../source/fields.ts'
import type { Job, Template, TemplateTree } from '../workflow.ts'
import { readTemplateTree } from './values.ts'

const mappingShape = { name: '"runs-on"', keys: ['group', 'labels'] as const }

/** Reads the labels of a job. */
export function readRunsOn(field: Field | undefined, faults: FaultList): TemplateTree | undefined {
  if (!field) return undefined
  const { node } = field
  if (node.kind === 'map') {
    const fields = openFields(field, mappingShape, faults)
    const group = fields?.get('group')
    if (group)
      faults.unsupported(group.keyPosition, 'Groups of runners are not supported.', 'Remove it.')
    return readRunsOn(fields?.get('labels'), faults)
  }
  const items = node.kind === 'list' ? node.items : [node]
  for (const item of items) {
    if (item.kind === 'scalar' && (item.value ?? '') !== '') continue
    const message = `A label of "runs-on" is ${kindOf(item)}.`
    faults.add(item.position, message, 'Write a label, such as ubuntu-latest, or omit it.')
  }
  if (node.kind === 'list' && items.length === 0) {
    faults.add(node.position, '"runs-on" is an empty list.', 'Remove it.')
  }
  return readTemplateTree(node, 'job.runs-on', faults)
}

type Labelled = Pick<Job, 'runsOn' | 'strategy'>

/** Reports labels of other systems, whose jobs are skipped, or those jobs of a matrix that have them. */
export function checkRunsOn(job: Labelled, faults: FaultList): void {
  const ofMatrix = valuesOf(job)
  const labels = leavesOf(ofMatrix ?? job.runsOn)
  const foreign = labels.filter((label) => isLiteral(label) && isForeignLabel(label.text))
  const [first] = foreign
  if (first && (!ofMatrix || foreign.length === labels.length)) {
    const message = `All runners have Linux, not ${first.text}.`
    return void faults.unsupported(first.position, message, 'Write ubuntu-latest.')
  }
  for (const { text, position } of foreign) {
    const message = `Jobs that run on ${text} are skipped, and those that need them: all runners have Linux.`
    faults.note(position, message)
  }
}

/** The literal labels that a matrix gives its jobs, without those of other systems. */
export function matrixLabelsOf(job: Labelled): MatrixLabels | undefined {
  const leaves = leavesOf(valuesOf(job))
  if (leaves.length === 0 || !leaves.every(isLiteral)) return undefined
  const labels = leaves.map(({ text }) => text).filter((text) => !isForeignLabel(text))
  return { name: matrixKeyOf(job), labels }
}

/** Whether a literal label names another system, so that the job is skipped in any case. */
export function isForeignRunsOn(field: Field | undefined): boolean {
  return (field ? itemsOf(field) : []).some(
    ({ node }) =>
      node.kind === 'scalar' && typeof node.value === 'string' && isForeignLabel(node.value),
  )
}

/** The name of the value of the matrix that is the label of a job, `os` of `${{ matrix.os }}`; else empty. */
function matrixKeyOf({ runsOn }: Labelled): string {
  const own = leavesOf(runsOn)
  if (own.length !== 1) return ''
  const [, name = ''] = /^\$\{\{\s*matrix\.([\w-]+)\s*\}\}$/.exec(own[0]?.text.trim() ?? '') ?? []
  return name
}

/** The values of the matrix that `runs-on` refers to; undefined when it refers to none, or they are expressions. */
function valuesOf(job: Labelled): TemplateTree[] | undefined {
  const { matrix } = job.strategy
  const name = matrixKeyOf(job)
  if (!matrix || 'text' in matrix || name === '') return undefined
  const vector = Object.hasOwn(matrix.vectors, name) ? matrix.vectors[name] : undefined
  const included = Array.isArray(matrix.include) ? matrix.include : []
  const values = included.map((item) => (isTree(item) ? item.tree[name] : undefined))
  return [vector, ...values].filter((tree) => tree !== undefined)
}

function leavesOf(tree: TemplateTree | undefined): Template[] {
  if (Array.isArray(tree)) return tree.flatMap(leavesOf)
  return typeof tree === 'object' && tree !== null && 'text' in tree ? [tree] : []
}

function isTree(tree: TemplateTree): tree is { tree: Record<string, TemplateTree> } {
  return typeof tree === 'object' && tree !== null && 'tree' in tree
}

function isLiteral({ text }: Template): boolean {
  return !text.includes('${{')
}
