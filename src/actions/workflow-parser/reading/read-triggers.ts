import { type FaultList, listed, quoted, suggest } from '../source/fault-list.ts'
import {
  type Field,
  type FieldMessage,
  type Fields,
  isNull,
  itemsOf,
  kindOf,
  openFields,
  openList,
} from '../source/fields.ts'
import type { SourceNode } from '../source/source-text.ts'
import type { ProposalFilter, PushFilter, SourcePosition, WorkflowTriggers } from '../workflow.ts'
import { cronFault } from './cron.ts'
import { patternFault } from './filter-pattern.ts'
import { readDispatchInputs } from './read-dispatch.ts'
import { readWorkflowCall } from './read-workflow-call.ts'
import { given, readText, readTexts } from './values.ts'

const keys = [
  'branches',
  'branches-ignore',
  'tags',
  'tags-ignore',
  'paths',
  'paths-ignore',
] as const

type FilterKey = (typeof keys)[number]
type Shape = Parameters<typeof openFields<FilterKey | 'types'>>[1]

const pushShape: Shape = {
  name: '"push"',
  keys,
  unsupported: {
    types: ['"push" has no types.', 'Remove it.'],
  } as const,
}

const noTags: FieldMessage = ['Changes are for branches.', 'Remove it.']
const proposalShape: Shape = {
  name: '"pull_request"',
  keys: ['branches', 'branches-ignore', 'paths', 'paths-ignore', 'types'],
  unsupported: { tags: noTags, 'tags-ignore': noTags },
}
const queueShape: Shape = {
  name: '"merge_group"',
  keys: ['branches', 'branches-ignore', 'types'],
}

/** The types of the events that happen here. */
const proposalTypes = ['opened', 'synchronize', 'reopened'] as const
const queueTypes = ['checks_requested'] as const

const maxPatterns = 100

/** Reads the filters of `on.push`; undefined where none are given. */
function readPushFilter(field: Field | undefined, faults: FaultList): PushFilter {
  return readFilter(field && openFields(field, pushShape, faults), faults)
}

/** The same of an event with types, which are noted where they never happen here. */
function readProposalFilter(
  field: Field | undefined,
  { shape, known }: { shape: Shape; known: readonly string[] },
  faults: FaultList,
): ProposalFilter {
  const fields = field && openFields(field, shape, faults)
  const named = given(fields?.get('types'))
  const types = named && readTexts(named, faults)
  for (const { text, field: item } of types ?? []) {
    if (known.includes(text)) continue
    const why = `The type ${quoted(text)} of ${shape.name} starts no runs; here are ${listed(known, 'and')}.`
    faults.note(item.node.position, why)
  }
  return { ...readFilter(fields, faults), types: types?.map(({ text }) => text) }
}

function readFilter(fields: Fields<FilterKey> | undefined, faults: FaultList): PushFilter {
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

const instead =
  'Use "push", "pull_request", "workflow_dispatch" or "schedule"; "on: push" runs for every branch that is pushed.'

const reviews: FieldMessage = [
  'Events of reviews are not supported.',
  'Use "on: pull_request", which runs for every version of a change.',
]
const unsupported = (what: string): FieldMessage => [`${what} are not supported.`, instead]

/** The events of GitHub that never happen here, each with the reason and the closest alternative. */
export const foreignEvents: Readonly<Record<string, FieldMessage>> = {
  branch_protection_rule: unsupported('Events of protections'),
  check_run: unsupported('Checks'),
  check_suite: unsupported('Checks'),
  create: [
    'Events of created branches and tags are not supported.',
    'Use "on: push" with "branches" or "tags".',
  ],
  delete: unsupported('Events of deleted branches and tags'),
  deployment: unsupported('Deployments'),
  deployment_status: unsupported('Deployments'),
  discussion: unsupported('Discussions'),
  discussion_comment: unsupported('Discussions'),
  fork: unsupported('Forks'),
  gollum: unsupported('Wikis'),
  image_version: unsupported('Runner images'),
  issue_comment: unsupported('Issues'),
  issues: unsupported('Issues'),
  label: unsupported('Labels'),
  milestone: unsupported('Milestones'),
  page_build: unsupported('Published sites'),
  public: unsupported('Changes of the visibility'),
  pull_request_review: reviews,
  pull_request_review_comment: reviews,
  pull_request_target: [
    'Runs with secrets for commits that everybody may propose are not supported.',
    'Use "on: pull_request", whose runs have no secrets unless the user who proposes may push.',
  ],
  registry_package: unsupported('Packages'),
  release: ['Releases are not supported.', 'Use "on: push" with "tags".'],
  repository_dispatch: [
    'Requests by "repository_dispatch" are not supported.',
    'Use "workflow_dispatch", with inputs.',
  ],
  status: unsupported('Commit statuses'),
  watch: unsupported('Stars'),
  workflow_run: [
    'Workflows do not start each other.',
    'Put the jobs into one workflow, and order them with "needs".',
  ],
}

/** Returns why an event of GitHub never happens here; undefined for other names. */
export function foreignEvent(name: string): FieldMessage | undefined {
  return Object.hasOwn(foreignEvents, name) ? foreignEvents[name] : undefined
}

const events = [
  'push',
  'pull_request',
  'merge_group',
  'workflow_dispatch',
  'schedule',
  'workflow_call',
] as const
type Event = (typeof events)[number]

const maxSchedules = 20

type NamedEvent = { name: string; details: Field | undefined; position: SourcePosition }

/** The triggers of a file without `on`. */
export const noTriggers: WorkflowTriggers = {
  push: undefined,
  pullRequest: undefined,
  mergeGroup: undefined,
  dispatch: undefined,
  schedule: [],
  call: undefined,
}

/**
 * Reads `on` in all its forms: an event, a list of events, or events with details. Events of GitHub that never happen
 * here are noted beside one that does, and otherwise a fault.
 */
export function readTriggers(field: Field, faults: FaultList): WorkflowTriggers {
  const triggers = { ...noTriggers }
  const named = eventsOf(field, faults)
  checkForeign(named, faults)
  for (const { name, details, position } of named) {
    const event = toEvent(name, position, faults)
    if (event === 'push') triggers.push = readPushFilter(details, faults)
    if (event === 'pull_request') {
      const kind = { shape: proposalShape, known: proposalTypes }
      triggers.pullRequest = readProposalFilter(details, kind, faults)
    }
    if (event === 'merge_group') {
      const kind = { shape: queueShape, known: queueTypes }
      triggers.mergeGroup = readProposalFilter(details, kind, faults)
    }
    if (event === 'workflow_dispatch') {
      triggers.dispatch = { inputs: readDispatchInputs(details, faults) }
    }
    if (event === 'workflow_call') triggers.call = readWorkflowCall(details, faults)
    if (event === 'schedule') triggers.schedule = readSchedules(details, position, faults)
  }
  return triggers
}

function checkForeign(named: NamedEvent[], faults: FaultList): void {
  const foreign = named.flatMap(({ name, position }) => {
    const why = foreignEvent(name)
    return why ? [{ name, position, why }] : []
  })
  const [first] = foreign
  if (foreign.length < named.length) {
    for (const { name, position, why } of foreign) {
      faults.note(position, `${quoted(name)} starts no runs: ${lowerFirst(why[0])}`)
    }
  } else if (first) {
    const names = foreign.map(({ name }) => quoted(name))
    const several = `None of the events ${listed(names, 'and')} happens here.`
    faults.add(first.position, foreign.length === 1 ? first.why[0] : several, first.why[1])
  }
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1)
}

/** The events with their `details`, if any. */
function eventsOf(field: Field, faults: FaultList): NamedEvent[] {
  const { node } = field
  if (isEmpty(node)) {
    const instead =
      'Write "push", "pull_request", "workflow_dispatch", "schedule" or a list of them, or omit "on".'
    faults.add(node.position, '"on" does not name an event.', instead)
    return []
  }
  if (node.kind === 'map') {
    return node.entries.map(({ key, keyPosition, value }) => {
      const details = isNull(value) ? undefined : { label: quoted(key), node: value, keyPosition }
      return { name: key, details, position: keyPosition }
    })
  }
  return itemsOf(field).flatMap((item) => {
    const name = readText(item, faults)
    return name === undefined ? [] : [{ name, details: undefined, position: item.node.position }]
  })
}

function isEmpty(node: SourceNode): boolean {
  if (node.kind === 'map') return node.entries.length === 0
  if (node.kind === 'list') return node.items.length === 0
  return node.value === null || node.value === ''
}

function toEvent(name: string, position: SourcePosition, faults: FaultList): Event | undefined {
  const event = events.find((candidate) => candidate === name)
  if (event || foreignEvent(name)) return event
  const similar = suggest(name, events)
  const instead = similar
    ? `Write ${quoted(similar)}.`
    : 'Use "push", "pull_request", "workflow_dispatch" or "schedule".'
  faults.add(position, `${quoted(name)} is not a supported event.`, instead)
  return undefined
}

function readSchedules(
  details: Field | undefined,
  position: SourcePosition,
  faults: FaultList,
): WorkflowTriggers['schedule'] {
  const instead = 'Write a list: "- cron: \'30 4 * * *\'".'
  if (!details) {
    faults.add(position, '"schedule" has no "cron" entries.', instead)
    return []
  }
  const items = openList(details, faults, instead) ?? []
  const excess = items[maxSchedules]
  if (excess || items.length === 0) {
    const message = `"schedule" has ${items.length} entries; 1 to ${maxSchedules} are allowed.`
    if (details.node.kind === 'list') faults.add(details.keyPosition, message, instead)
    return []
  }
  return items.flatMap((item) => readSchedule(item, faults) ?? [])
}

const scheduleShape = { name: 'an item of "schedule"', keys: ['cron', 'timezone'] as const }

function readSchedule(
  item: Field,
  faults: FaultList,
): WorkflowTriggers['schedule'][number] | undefined {
  const fields = openFields(item, scheduleShape, faults)
  const field = fields?.get('cron')
  if (fields && !field) {
    faults.add(
      item.node.position,
      'This schedule has no "cron".',
      'Write "- cron: \'30 4 * * *\'".',
    )
  }
  if (field && (field.node.kind !== 'scalar' || typeof field.node.value !== 'string')) {
    const message = `"cron" is ${kindOf(field.node)}, not a string.`
    return void faults.add(field.node.position, message, 'Put it in quotes: "30 4 * * *".')
  }
  const cron = readText(field, faults)
  const zone = fields?.get('timezone')
  const timezone = readText(zone, faults)
  if (!field || cron === undefined) return undefined
  const fault = cronFault(cron, timezone)
  const isOfZone = fault?.[0].includes('time zone')
  if (fault) faults.add((isOfZone ? (zone ?? field) : field).node.position, ...fault)
  return { cron, timezone, position: field.node.position }
}
