import { data, wellKnownFunctions } from '@actions/expressions'
import type { FunctionDefinition } from '@actions/expressions/funcs/info'
import { equals } from '@actions/expressions/result'
import { findText } from '#base/find-text.ts'
import type { Json } from '#base/json.ts'
import { toData } from './expression-data.ts'
import { type EvaluationBudget, EvaluationError, requireShort, type Scope } from './scope.ts'
import { allFunctions } from './workflow-keys.ts'

type Value = data.ExpressionData

/** Functions keyed by lower-case name, as the library's evaluator requires. */
export function createFunctions(
  scope: Scope,
  budget: EvaluationBudget,
): Map<string, FunctionDefinition> {
  const { status } = scope
  const calls: Record<string, (...args: Value[]) => Value> = {
    always: () => new data.BooleanData(true),
    cancelled: () => new data.BooleanData(status.cancelled),
    success: (...jobs) =>
      toBoolean(jobs.length === 0 ? status.success : resultsOf(jobs, scope).every(isSuccess)),
    failure: (...jobs) =>
      toBoolean(jobs.length === 0 ? status.failure : resultsOf(jobs, scope).some(isFailure)),
    hashfiles: (...patterns) => new data.StringData(hashFiles(patterns.map(toText), scope)),
    contains: (searched, item) => toBoolean(contains(searched, item, budget)),
    format: (pattern, ...values) => toTextData(formatText(toText(pattern), values.map(toText))),
    fromjson: (text) => toData(parseJson(toText(text)), budget),
    join: (list, separator) => toTextData(joinTexts(list, separator)),
    tojson: (value) => toTextData(value === undefined ? '' : toJsonText(value)),
  }
  const known = [...Object.values(wellKnownFunctions), ...allFunctions]
  return new Map(
    known.map((signature) => {
      const name = signature.name.toLowerCase()
      const call = calls[name] ?? wellKnownFunctions[name]?.call
      if (call === undefined) throw new Error(`the function ${name} is not implemented`)
      return [name, { ...signature, call: charged(call, budget) }]
    }),
  )
}

/** Charges intermediate values; the evaluator charges the result of a function. */
function charged(call: (...args: Value[]) => Value, budget: EvaluationBudget) {
  return (...args: Value[]) => {
    budget.spend(args.length)
    return call(...args)
  }
}

function toBoolean(value: boolean): Value {
  return new data.BooleanData(value)
}

function toTextData(text: string): Value {
  return new data.StringData(text)
}

function toText(value: Value | undefined): string {
  return value?.coerceString() ?? ''
}

/** The results of the jobs named in a job's condition. */
function resultsOf(jobs: Value[], { contexts }: Scope): Json[] {
  const needs = contexts.needs
  return jobs.map(toText).map((job) => {
    const need = isObject(needs) && Object.hasOwn(needs, job) ? needs[job] : undefined
    if (isObject(need)) return need.result ?? null
    throw new EvaluationError(`There is no job \`${job}\` among the \`needs\` of this job.`)
  })
}

const isSuccess = (result: Json) => result === 'success'
const isFailure = (result: Json) => result === 'failure'

function isObject(value: Json | undefined): value is { [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function hashFiles(patterns: string[], scope: Scope): string {
  try {
    return scope.hashFiles(patterns)
  } catch (fault) {
    const reason = fault instanceof Error ? fault.message : String(fault)
    throw new EvaluationError(`hashFiles failed: ${reason}`, { cause: fault })
  }
}

function contains(
  searched: Value | undefined,
  item: Value | undefined,
  budget: EvaluationBudget,
): boolean {
  if (searched === undefined || item === undefined) return false
  if (searched instanceof data.Array) {
    return searched.values().some((element) => {
      // Each comparison folds both texts anew.
      if (element.primitive && item.primitive) {
        budget.spend(toText(element).length + toText(item).length)
      }
      return equals(item, element)
    })
  }
  if (!searched.primitive || !item.primitive) return false
  return findText(toText(searched).toLowerCase(), toText(item).toLowerCase()) !== -1
}

function parseJson(text: string): Json {
  requireShort(text.length)
  if (text.trim() === '') throw new EvaluationError('fromJSON got an empty string.')
  try {
    return JSON.parse(text)
  } catch (fault) {
    // The error of JSON.parse quotes the text, which may be secret.
    const [, position] = /at position (\d+)/.exec(String(fault)) ?? []
    const where = position === undefined ? '' : ` at character ${Number(position) + 1}`
    throw new EvaluationError(`fromJSON got invalid JSON${where}.`)
  }
}

function joinTexts(list: Value | undefined, separator: Value | undefined): string {
  if (!(list instanceof data.Array)) return list?.primitive ? toText(list) : ''
  const between = separator?.primitive ? toText(separator) : ','
  let length = 0
  for (const item of list.values()) {
    length += toText(item).length + between.length
    requireShort(length - between.length)
  }
  return list.values().map(toText).join(between)
}

/** `format('{0} {{ }}', …)`. The library's version takes quadratic time and unbounded memory. */
function formatText(pattern: string, values: string[]): string {
  const pieces: string[] = []
  let length = 0
  let end = 0
  for (const brace of pattern.matchAll(/\{\{|\}\}|\{(\d{1,5})\}|[{}]/g)) {
    const [written, index] = brace
    put(pattern.slice(end, brace.index))
    put(index === undefined ? toBrace(written) : valueAt(Number(index)))
    end = brace.index + written.length
  }
  put(pattern.slice(end))
  return pieces.join('')

  function put(piece: string): void {
    length += piece.length
    requireShort(length)
    pieces.push(piece)
  }

  function valueAt(index: number): string {
    const value = values[index]
    if (value !== undefined) return value
    throw new EvaluationError(
      `format refers to {${index}}, but has ${values.length} values, counted from {0}.`,
    )
  }
}

function toBrace(written: string): string {
  if (written.length === 2) return written.slice(1)
  throw new EvaluationError(
    'format got a string with a single brace; write {{ or }} for a brace, {0} for a value.',
  )
}

/** Serializes a value like `JSON.stringify` with two spaces. Throws EvaluationError as soon as it is too long. */
function toJsonText(value: data.ExpressionData): string {
  const pieces: string[] = []
  let length = 0
  write(value, '\n')
  return pieces.join('')

  function put(piece: string): void {
    pieces.push(piece)
    length += piece.length
    requireShort(length)
  }

  function write(value: data.ExpressionData, lineBreak: string): void {
    if (value instanceof data.Array) {
      writeAll('[', value.values(), ']', lineBreak, write)
    } else if (value instanceof data.Dictionary) {
      writeAll('{', value.pairs(), '}', lineBreak, ({ key, value }, inner) => {
        put(`${JSON.stringify(key)}: `)
        write(value, inner)
      })
    } else {
      put(value instanceof data.Null ? 'null' : JSON.stringify(value.value))
    }
  }

  function writeAll<T>(
    opening: string,
    items: T[],
    closing: string,
    lineBreak: string,
    writeItem: (item: T, inner: string) => void,
  ): void {
    const inner = `${lineBreak}  `
    put(opening)
    for (const [index, item] of items.entries()) {
      put(index === 0 ? inner : `,${inner}`)
      writeItem(item, inner)
    }
    put(items.length === 0 ? closing : `${lineBreak}${closing}`)
  }
}
