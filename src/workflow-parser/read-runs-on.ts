import type { FaultList } from './fault-list.ts'
import { type Field, itemsOf, kindOf } from './fields.ts'
import { isForeignLabel } from './runner-labels.ts'
import { readTree } from './values.ts'
import type { Job, Template, TemplateTree } from './workflow.ts'

/** Reads the labels of a job. */
export function readRunsOn(field: Field | undefined, faults: FaultList): TemplateTree | undefined {
  if (!field) return undefined
  const { node } = field
  if (node.kind === 'map') {
    const instead = 'Write one label, or a list of labels.'
    return void faults.add(
      node.position,
      '"runs-on" is a mapping; runner groups are not supported.',
      instead,
    )
  }
  const items = node.kind === 'list' ? node.items : [node]
  for (const item of items) {
    if (item.kind === 'scalar' && typeof item.value === 'string' && item.value !== '') continue
    const message = `A label of "runs-on" is ${kindOf(item)}.`
    faults.add(item.position, message, 'Write a label, such as ubuntu-latest, or omit it.')
  }
  if (node.kind === 'list' && items.length === 0) {
    faults.add(node.position, '"runs-on" is an empty list.', 'Remove it.')
  }
  return readTree(node, 'job.runs-on', faults)
}

/** Notes jobs for other systems, which are skipped; a file that has no other jobs is refused. */
export function checkRunsOn(jobs: Job[], faults: FaultList): void {
  const found = jobs.map((job) => ({ labels: labelsOf(job), isMatrix: job.strategy.matrix }))
  const foreign = found.flatMap(({ labels }) => labels.filter(({ text }) => isForeignLabel(text)))
  const [first] = foreign
  if (!first) return
  const isSkipped = ({ labels, isMatrix }: (typeof found)[number]) => {
    const areForeign = labels.map(({ text }) => isForeignLabel(text))
    return isMatrix ? areForeign.every(Boolean) && labels.length > 0 : areForeign.includes(true)
  }
  if (found.every(isSkipped)) {
    const message = `No job of the file can run: all runners have Linux, not ${first.text}.`
    return void faults.add(first.position, message, 'Write ubuntu-latest.')
  }
  for (const { text, position } of foreign) {
    const message = `Jobs that run on ${text} are skipped, and those that need them: all runners have Linux.`
    faults.note(position, message)
  }
}

/** Whether a literal label names another system, so that the job is skipped in any case. */
export function isForeignRunsOn(field: Field | undefined): boolean {
  return (field ? itemsOf(field) : []).some(
    ({ node }) =>
      node.kind === 'scalar' && typeof node.value === 'string' && isForeignLabel(node.value),
  )
}

/** The literal labels of a job; of a matrix those of all its jobs, when "runs-on" is one of its values. */
function labelsOf({ runsOn, strategy: { matrix } }: Job): Template[] {
  const own = leavesOf(runsOn)
  const [, name = ''] = /^\$\{\{\s*matrix\.([\w-]+)\s*\}\}$/.exec(own[0]?.text.trim() ?? '') ?? []
  if (!matrix || 'text' in matrix || own.length !== 1 || name === '') return own.filter(isLiteral)
  const vector = Object.hasOwn(matrix.vectors, name) ? matrix.vectors[name] : undefined
  const included = Array.isArray(matrix.include) ? matrix.include : []
  const values = included.map((item) => (isTree(item) ? item.tree[name] : undefined))
  return [vector, ...values].flatMap((tree) => leavesOf(tree)).filter(isLiteral)
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
