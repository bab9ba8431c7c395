import { checkCondition, checkTemplate } from '../expressions/parse-expression.ts'
import type { WorkflowKey } from '../expressions/workflow-keys.ts'
import { type FaultList, quoted } from '../source/fault-list.ts'
import {
  type Field,
  isNull,
  itemsOf,
  kindOf,
  type NamedField,
  openNamed,
} from '../source/fields.ts'
import type { ScalarNode, SourceNode } from '../source/source-text.ts'
import type { Environment, Template, TemplateTree } from '../workflow.ts'

/** Reads a text that may contain expressions. As on GitHub, numbers and booleans count as texts. */
export function readTemplate(
  field: Field | undefined,
  workflowKey: WorkflowKey,
  faults: FaultList,
): Template | undefined {
  const scalar = field && readScalar(field, faults, 'Write a string.')
  return scalar && toTemplate(scalar, workflowKey, faults)
}

/** The text of an `if`. */
export function readCondition(
  field: Field | undefined,
  workflowKey: WorkflowKey,
  faults: FaultList,
): Template | undefined {
  const scalar = field && readScalar(field, faults, 'Write a condition, or remove "if".')
  if (!scalar) return undefined
  const template = { text: String(scalar.value), position: scalar.textPosition }
  faults.addAll(checkCondition(template, workflowKey))
  return template
}

/** A field, unless it has no value: GitHub takes that as absent for most texts. */
export function given(field: Field | undefined): Field | undefined {
  return isNull(field?.node) ? undefined : field
}

/** Reads a non-empty text without expressions. */
export function readText(
  field: Field | undefined,
  faults: FaultList,
  maxLength = 1000,
): string | undefined {
  const scalar = field && readScalar(field, faults, 'Write a string.')
  if (!scalar) return undefined
  const text = String(scalar.value)
  const refuse = (message: string, instead: string) =>
    void faults.add(scalar.position, `${field.label} ${message}`, instead)
  if (text.trim() === '') return refuse('is empty.', 'Write a string.')
  if (text.length > maxLength) {
    return refuse(`is longer than ${maxLength} characters.`, 'Write a shorter string.')
  }
  if (text.includes('${{')) return refuse('cannot contain expressions.', 'Write a literal string.')
  return text
}

/** Reads a list of texts without expressions, or a single one. */
export function readTexts(field: Field, faults: FaultList): { text: string; field: Field }[] {
  return itemsOf(field).flatMap((item) => {
    const text = readText(item, faults)
    return text === undefined ? [] : [{ text, field: item }]
  })
}

/** `true`, `false` or an expression. */
export function readFlag(
  field: Field | undefined,
  workflowKey: WorkflowKey,
  faults: FaultList,
): Template | boolean | undefined {
  if (!field) return undefined
  const { node } = field
  if (node.kind === 'scalar' && typeof node.value === 'boolean') return node.value
  return readExpression(
    field,
    workflowKey,
    faults,
    'Write true, false or an expression (${{ … }}).',
  )
}

/** `true` or `false`. */
export function readBoolean(field: Field | undefined, faults: FaultList): boolean | undefined {
  if (!field) return undefined
  const { node, label } = field
  if (node.kind === 'scalar' && typeof node.value === 'boolean') return node.value
  faults.add(node.position, `${label} is ${kindOf(node)}.`, 'Write true or false.')
  return undefined
}

/** Reads a positive number, or an expression. */
export function readPositive(
  field: Field | undefined,
  workflowKey: WorkflowKey,
  faults: FaultList,
  { isComplete }: { isComplete: boolean },
): Template | number | undefined {
  if (!field) return undefined
  const { node, label } = field
  const instead = `Write a ${isComplete ? 'whole number' : 'number'} above 0.`
  if (node.kind !== 'scalar' || typeof node.value !== 'number') {
    return readExpression(field, workflowKey, faults, instead)
  }
  if (node.value > 0 && (!isComplete || Number.isSafeInteger(node.value))) return node.value
  return void faults.add(node.position, `${label} is ${node.value}.`, instead)
}

/** A text that is an expression. */
export function readExpression(
  { label, node }: Field,
  workflowKey: WorkflowKey,
  faults: FaultList,
  instead: string,
): Template | undefined {
  if (hasExpression(node)) return toTemplate(node, workflowKey, faults)
  const what =
    node.kind === 'scalar' && typeof node.value === 'string' ? quoted(node.value) : kindOf(node)
  faults.add(node.position, `${label} is ${what}.`, instead)
  return undefined
}

/** Whether a value is a text with an expression. */
export function hasExpression(
  node: SourceNode | undefined,
): node is ScalarNode & { value: string } {
  return node?.kind === 'scalar' && typeof node.value === 'string' && node.value.includes('${{')
}

/** Any value, with its texts as templates. */
export function readTemplateTree(
  node: SourceNode,
  workflowKey: WorkflowKey,
  faults: FaultList,
): TemplateTree {
  if (node.kind === 'list')
    return node.items.map((item) => readTemplateTree(item, workflowKey, faults))
  if (node.kind === 'map') {
    const entries = node.entries.map(({ key, value }) => [
      key,
      readTemplateTree(value, workflowKey, faults),
    ])
    return { tree: Object.fromEntries(entries) }
  }
  return typeof node.value === 'string' ? toTemplate(node, workflowKey, faults) : node.value
}

/** Reads templates by name, in the order of the file; an empty value is an empty text. */
export function readTemplates(
  field: Field | undefined,
  workflowKey: WorkflowKey,
  faults: FaultList,
  checkName: (entry: NamedField) => void = () => {},
): Record<string, Template> {
  if (!field) return {}
  const entries = openNamed(field, faults, 'Write "NAME: value" lines.').flatMap((entry) => {
    checkName(entry)
    const { node } = entry
    const template = isNull(node)
      ? { text: '', position: node.position }
      : readTemplate(entry, workflowKey, faults)
    return template ? [[entry.name, template] as const] : []
  })
  return Object.fromEntries(entries)
}

/** Texts by name, or an expression that gives them. */
export function readMapping(
  field: Field | undefined,
  workflowKey: WorkflowKey,
  faults: FaultList,
): Environment {
  if (field && hasExpression(field.node)) return toTemplate(field.node, workflowKey, faults)
  return readTemplates(field, workflowKey, faults)
}

/** The variables of an `env`. */
export function readEnvironment(
  field: Field | undefined,
  workflowKey: WorkflowKey,
  faults: FaultList,
): Environment {
  if (field && hasExpression(field.node)) return toTemplate(field.node, workflowKey, faults)
  return readTemplates(field, workflowKey, faults, ({ name, keyPosition }) => {
    if (/^[^\s=\p{Cc}]+$/u.test(name)) return
    const message = `${quoted(name)} is not a valid environment variable name.`
    faults.add(keyPosition, message, 'Use letters, digits and underscores.')
  })
}

function toTemplate(scalar: ScalarNode, workflowKey: WorkflowKey, faults: FaultList): Template {
  const template = { text: String(scalar.value), position: scalar.textPosition }
  faults.addAll(checkTemplate(template, workflowKey))
  return template
}

function readScalar(
  { node, label }: Field,
  faults: FaultList,
  instead: string,
): ScalarNode | undefined {
  if (node.kind === 'scalar' && node.value !== null) return node
  const isEmpty = node.kind === 'scalar'
  faults.add(
    node.position,
    `${label} is ${isEmpty ? 'empty' : `${kindOf(node)}, not a string`}.`,
    instead,
  )
  return undefined
}
