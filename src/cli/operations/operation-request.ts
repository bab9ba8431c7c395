import { toNamespaceOperation } from '#base/repository-name.ts'
import { parseRequirement } from '#repositories/requirement-text.ts'
import type { RequirementValue } from '#repositories/requirements.ts'
import { type ApiRequest, encodePart } from '../servers/http-client.ts'
import { UsageError } from '../terminal/command-errors.ts'
import described from './api-operations.json' with { type: 'json' }
import type { ClientOperation, CommandInput, RequestFields } from './operation.ts'

/** A field as the schemas of the API have it. */
export type DescribedField = { type: string; choices?: string[] }
export type DescribedOperation = {
  method: string
  path: string
  query?: Record<string, DescribedField>
  body?: Record<string, DescribedField>
}

/**
 * Generated of the routes, which a client does not load: that takes longer than most requests. Commands send what these
 * fields say, so a server of another version gets what it got from the client of this one.
 */
const operations: Record<string, DescribedOperation> = described

/** Options whose values differ between servers, which check them. */
const unlisted = new Set(['--permission'])

/** Arguments whose field has another name. */
const fieldNames: Record<string, string> = { text: 'q' }

type Named = { operationId?: string | undefined; fields?: RequestFields | undefined }

/** The request of an operation: the first one of a command unless it chooses, or another is named. */
export function toRequest(
  command: ClientOperation,
  input: CommandInput,
  { operationId, fields }: Named = {},
): ApiRequest {
  const { method, path, query, body } = describedOperation(
    operationId ?? command.choose?.(input) ?? command.operations[0],
  )
  const ofFields = new Set(Object.keys({ ...query, ...body }))
  const ofPath = argumentsOf(command).filter((name) => !ofFields.has(fieldNames[name] ?? name))
  const given = { ...command.fill?.(input), ...fields }
  const valuesOf = (all: Record<string, DescribedField>): RequestFields =>
    Object.fromEntries(
      Object.entries(all)
        .filter(([name]) => !Object.hasOwn(given, name))
        .map(([name, field]) => [name, fieldValue(name, field, command, input)]),
    )
  const parts = ofPath.values()
  return {
    method,
    path: path.replace(/:\w+\*?/g, () => encodePart(input.argument(parts.next().value ?? ''))),
    // The values of a query are texts, numbers and booleans.
    query: { ...(query && valuesOf(query)), ...(!body && given) } as ApiRequest['query'],
    ...(body && { body: { ...valuesOf(body), ...given } }),
  }
}

/** A command about a repository that also takes a namespace, by an option. */
export function orNamespace(row: ClientOperation): ClientOperation {
  const [first, ...others] = row.operations
  const { choose = () => first } = row
  const ofNamespaces = row.operations.map(toNamespaceOperation)
  return {
    ...row,
    operations: [first, ...others, ...ofNamespaces],
    choose: (input) =>
      input.option('namespace') === undefined ? choose(input) : toNamespaceOperation(choose(input)),
    options: { '--namespace <name>': 'a namespace, in place of a repository', ...row.options },
  }
}

/** Whether the client reads a list page by page. */
export function isPaged(command: ClientOperation): boolean {
  const { cursor, before } = describedOperation(command.operations[0]).query ?? {}
  return (cursor ?? before) !== undefined && !('isOnePage' in command)
}

/** The values that an option takes, if its field has certain ones. */
export function choicesOf({ operations: ids }: ClientOperation, flags: string) {
  const [long = ''] = flags.split(' ')
  const option = optionNameOf(flags)
  if (!flags.includes('<') || unlisted.has(long)) return undefined
  for (const id of ids) {
    const { query, body } = describedOperation(id)
    for (const [name, { type, choices }] of Object.entries({ ...query, ...body })) {
      if (![name, singularOf(name)].includes(option)) continue
      return type === 'boolean' ? ['on', 'off'] : choices
    }
  }
  return undefined
}

/** The name of an option in the values of a command: `pathBase64` for `--path-base64`. */
export function optionNameOf(flags: string): string {
  const [, word = ''] = /^--(?:no-)?([\w-]+)/.exec(flags) ?? []
  return word.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase())
}

export function argumentsOf({ arguments: names = [] }: Pick<ClientOperation, 'arguments'>) {
  return names.map((name) => name.replace(/[[\]]/g, ''))
}

function describedOperation(id: string): DescribedOperation {
  const operation = operations[id]
  if (!operation) throw new TypeError(`There is no operation ${id}`)
  return operation
}

function singularOf(name: string): string {
  return name.replace(/(?:ies|s)$/, (end) => (end === 'ies' ? 'y' : ''))
}

function fieldValue(
  field: string,
  { type }: DescribedField,
  command: ClientOperation,
  input: CommandInput,
): unknown {
  const all = Object.keys(command.options ?? {})
  const named = (name: string) => all.find((flags) => optionNameOf(flags) === name)
  const flags = named(field) ?? named(singularOf(field))
  const argument = argumentsOf(command).find((name) => (fieldNames[name] ?? name) === field)
  if (flags === undefined) return argument && (input.argument(argument) || undefined)
  // The number of entries, of which pages have a part.
  if (field === 'limit' && isPaged(command)) return undefined
  const { option, list, flag } = input
  const [long = ''] = flags.split(' ')
  const name = optionNameOf(flags)
  const text = option(name)
  switch (type) {
    case 'boolean':
      if (flags.includes('<')) return text && text === 'on'
      return long.startsWith('--no-') && flag(name) ? undefined : flag(name)
    case 'integer':
      return flags.includes('<time>') ? timeOf(text, long) : wholeOf(text, long)
    case 'integer or null':
      return text === 'never' ? null : wholeOf(text, long, ' or never')
    case 'list':
      return flags.includes('<file') ? list(name)?.map(pathOf) : list(name)
    case 'object':
      return flags.includes('...') ? pairsOf(list(name), long) : authorOf(text)
    default:
      if (flags.includes('...')) return list(name)?.join(',')
      if (flags.includes('<path>')) return pathOf(text ?? input.argument('path')) || undefined
      return text ?? (argument && (input.argument(argument) || undefined))
  }
}

/** A path in the files of a repository, as a shell may have completed it: without `.` and doubled slashes. */
export function pathOf(text: string): string {
  const names = text.split('/').filter((name) => name !== '' && name !== '.')
  if (!text.startsWith('/') && !names.includes('..')) return names.join('/')
  throw new UsageError(
    `The path "${text}" is not within the repository; paths start at its root, such as src/main.c, and have no "..".`,
  )
}

/** A requirement of a protection; its workflow file is a path as a shell may have completed it. */
export function requirementOf(text: string): RequirementValue {
  const value = parseRequirement(text)
  if (typeof value === 'string') return pathOf(value)
  return 'workflow' in value ? { ...value, workflow: pathOf(value.workflow) } : value
}

/** The values of an option that takes `name=value`. */
function pairsOf(words: string[] | undefined, option: string): Record<string, string> | undefined {
  return (
    words &&
    Object.fromEntries(
      words.map((word) => {
        const [, name, value] = /^([^=]+)=(.*)$/s.exec(word) ?? []
        if (name === undefined || value === undefined)
          throw new UsageError(`${option} ${word}: the form is name=value.`)
        return [name, value]
      }),
    )
  )
}

/** The value of `--limit`. */
export function limitOf(text: string | undefined, fallback: number): number {
  if (text === undefined) return fallback
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text)
  throw new UsageError('--limit takes a whole number from 1.')
}

/** The sentence after a list that is longer than its limit. */
export function goesOn(limit: number): string {
  return `The list goes on after these ${limit}; --limit shows more.`
}

/** A whole number that an option takes. */
export function wholeOf(text: string | undefined, option: string, also = ''): number | undefined {
  if (text === undefined) return undefined
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new UsageError(`${option} takes a whole number${also}; not "${text}".`)
}

/** A time that an option takes: an ISO 8601 date, or milliseconds since 1970. */
export function timeOf(text: string | undefined, option: string): number | undefined {
  if (text === undefined) return undefined
  const time = /^\d{1,15}$/.test(text) ? Number(text) : Date.parse(text)
  if (Number.isFinite(time)) return time
  throw new UsageError(`${option} takes a time such as 2026-11-24T08:00:00Z; not "${text}".`)
}

/** The value of `--author`. */
function authorOf(text: string | undefined): { name: string; email: string } | undefined {
  if (text === undefined) return undefined
  const [, name = '', email = ''] = /^([^<>]+) <([^<>]+)>$/.exec(text) ?? []
  if (name !== '') return { name, email }
  throw new UsageError(`--author takes "Name <email>"; not "${text}".`)
}
