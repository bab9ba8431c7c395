import { type Static, type TProperties, type TSchema, Type } from 'typebox'
import { closed } from '#base/schema-options.ts'
import type { Annotation, Conclusion, RunEntry } from '../workflow-engine/plan.ts'

const conclusions = ['success', 'failure', 'cancelled', 'timed_out', 'skipped'] as const
const text = Type.String()
// The number of a job or step; the maximum is more than a plan can have.
const number = Type.Integer({ minimum: 0, maximum: 99_999 })
const time = Type.Integer({ minimum: 0, maximum: 2 ** 45 })
const conclusion = Type.Unsafe<Conclusion>({ type: 'string', enum: conclusions })
const position = Type.Unsafe<number | null>({
  type: ['integer', 'null'],
  minimum: 1,
  maximum: 999_999_999,
})

const entry = <Kind extends string, Properties extends TProperties>(
  kind: Kind,
  properties: Properties,
) => Type.Object({ kind: Type.Literal(kind), ...properties }, closed)

const byKind = {
  isolation: entry('isolation', { isolation: text, description: text }),
  'job-planned': entry('job-planned', {
    job: number,
    file: text,
    workflow: text,
    id: text,
    name: text,
    matrix: text,
  }),
  'job-started': entry('job-started', { job: number, at: time }),
  'job-ended': entry('job-ended', {
    job: number,
    at: time,
    conclusion,
    outputs: Type.Record(text, text),
    fault: text,
    isTolerated: Type.Optional(Type.Literal(true)),
  }),
  'step-planned': entry('step-planned', { job: number, step: number, name: text }),
  'step-started': entry('step-started', { step: number, at: time, name: Type.Optional(text) }),
  'step-ended': entry('step-ended', {
    step: number,
    at: time,
    conclusion,
    exitCode: Type.Unsafe<number | null>({
      type: ['integer', 'null'],
      minimum: -(2 ** 31),
      maximum: 2 ** 31 - 1,
    }),
    fault: text,
    summary: text,
  }),
  annotation: entry('annotation', {
    step: number,
    level: Type.Unsafe<Annotation['level']>({
      type: 'string',
      enum: ['error', 'warning', 'notice'],
    }),
    file: text,
    line: position,
    endLine: position,
    column: position,
    endColumn: position,
    title: text,
    message: text,
  }),
  output: entry('output', {
    step: Type.Unsafe<number | null>({
      type: ['integer', 'null'],
      minimum: 0,
      maximum: 99_999,
    }),
    text,
  }),
  'run-ended': entry('run-ended', {
    at: time,
    conclusion: Type.Unsafe<Exclude<Conclusion, 'skipped'>>({
      type: 'string',
      enum: conclusions.filter((one) => one !== 'skipped'),
    }),
    fault: text,
  }),
} satisfies Record<RunEntry['kind'], TSchema>

/** Equal to `RunEntry`: see the test. */
export type CheckedEntry = Static<(typeof byKind)[RunEntry['kind']]>

export const EntrySchema = Type.Unsafe<RunEntry>({ anyOf: Object.values(byKind) })
