import type { FaultList } from './fault-list.ts'
import { type Field, type Fields, openFields } from './fields.ts'
import { patternFault } from './filter-pattern.ts'
import { given, readTexts } from './values.ts'
import type { PushFilter } from './workflow.ts'

const keys = [
  'branches',
  'branches-ignore',
  'tags',
  'tags-ignore',
  'paths',
  'paths-ignore',
] as const

type FilterKey = (typeof keys)[number]

const shape = {
  name: '"push"',
  keys,
  unsupported: {
    types: ['"push" has no types.', 'Remove it.'],
  } as const,
}

const maxPatterns = 100

/** Reads the filters of `on.push`; undefined where none are given. */
export function readPushFilter(field: Field | undefined, faults: FaultList): PushFilter {
  const fields = field && openFields(field, shape, faults)
  const read = (key: FilterKey) => {
    const patterns = given(fields?.get(key))
    return patterns && readPatterns(patterns, key.endsWith('-ignore'), faults)
  }
  if (fields) rejectPairs(fields, faults)
  return {
    branches: read('branches'),
    branchesIgnore: read('branches-ignore'),
    tags: read('tags'),
    tagsIgnore: read('tags-ignore'),
    paths: read('paths'),
    pathsIgnore: read('paths-ignore'),
  }
}

function rejectPairs(fields: Fields<FilterKey>, faults: FaultList): void {
  for (const key of ['branches', 'tags', 'paths'] as const) {
    const ignored = fields.get(`${key}-ignore`)
    if (!fields.get(key) || !ignored) continue
    const message = `"${key}" and "${key}-ignore" cannot be used together.`
    const instead = `Write "${key}" alone, and exclude with "!pattern".`
    faults.add(ignored.keyPosition, message, instead)
  }
}

function readPatterns(field: Field, isIgnored: boolean, faults: FaultList): string[] {
  const patterns = readTexts(field, faults)
  const isList = field.node.kind === 'list'
  if (isList && field.node.kind === 'list' && field.node.items.length === 0) {
    faults.add(field.keyPosition, `${field.label} is an empty list.`, 'Write "**" for all.')
  }
  const excess = patterns[maxPatterns]
  if (excess) {
    const message = `${field.label} has ${patterns.length} patterns; the maximum is ${maxPatterns}.`
    faults.add(excess.field.node.position, message, 'Use patterns that match more.')
  }
  for (const { text, field: item } of patterns) {
    const fault = patternFault(text.replace(/^!/, ''))
    if (fault) faults.add(item.node.position, ...fault)
  }
  const texts = patterns.map(({ text }) => text)
  if (!isIgnored && texts.length > 0 && texts.every((text) => text.startsWith('!'))) {
    faults.note(
      field.keyPosition,
      `${field.label} matches nothing: all its patterns start with "!".`,
    )
  }
  return texts
}
