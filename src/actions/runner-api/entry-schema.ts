import { type Static, type TSchema, Type } from 'typebox'
import { closed } from '#base/schema-options.ts'
import type { Annotation, Conclusion, RunEntry } from '../workflow-engine/plan.ts'

const conclusions = ['success', 'failure', 'cancelled', 'timed_out', 'skipped'] as const
const text = Type.String()
// Of a job or step: more than a plan can have.
const number = Type.Integer({ minimum: 0, maximum: 99_999 })
const time = Type.Integer({ minimum: 0, maximum: 2 ** 45 })
const conclusion = Type.Unsafe<Conclusion>({ type: 'string', enum: conclusions })
const position = Type.Unsafe<number | null>({
  type: ['integer', 'null'],
  minimum: 1,
  maximum: 999_999_999,
})

const byKind = {
  isolation: Type.Object(
    { kind: Type.Literal('isolation'), isolation: text, description: text },
    closed,
  ),
  'job-planned': Type.Object(
    {
      kind: Type.Literal('job-planned'),
      job: number,
      file: text,
      workflow: text,
      id: text,
      name: text,
      matrix: text,
    },
    closed,
  ),
  'job-started': Type.Object({ kind: Type.Literal('job-started'), job: number, at: time }, closed),
  'job-ended': Type.Object(
    {
      kind: Type.Literal('job-ended'),
      job: number,
      at: time,
      conclusion,
      outputs: Type.Record(text, text),
      fault: text,
      isTolerated: Type.Optional(Type.Literal(true)),
    },
    closed,
  ),
  'step-planned': Type.Object(
    { kind: Type.Literal('step-planned'), job: number, step: number, name: text },
    closed,
  ),
  'step-started': Type.Object(
    { kind: Type.Literal('step-started'), step: number, at: time, name: Type.Optional(text) },
    closed,
  ),
  'step-ended': Type.Object(
    {
      kind: Type.Literal('step-ended'),
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
    },
    closed,
  ),
  annotation: Type.Object(
    {
      kind: Type.Literal('annotation'),
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
    },
    closed,
  ),
  output: Type.Object(
    {
      kind: Type.Literal('output'),
      step: Type.Unsafe<number | null>({
        type: ['integer', 'null'],
        minimum: 0,
        maximum: 99_999,
      }),
      text,
    },
    closed,
  ),
  'run-ended': Type.Object(
    {
      kind: Type.Literal('run-ended'),
      at: time,
      conclusion: Type.Unsafe<Exclude<Conclusion, 'skipped'>>({
        type: 'string',
        enum: conclusions.filter((one) => one !== 'skipped'),
      }),
      fault: text,
    },
    closed,
  ),
} satisfies Record<RunEntry['kind'], TSchema>

/** Equal to `RunEntry`: see the test. */
export type CheckedEntry = Static<(typeof byKind)[RunEntry['kind']]>

export const EntrySchema = Type.Unsafe<RunEntry>({ anyOf: Object.values(byKind) })
