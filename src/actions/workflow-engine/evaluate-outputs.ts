import { evaluateText } from '../workflow-parser/evaluate.ts'
import type { Scope } from '../workflow-parser/scope.ts'
import type { Template } from '../workflow-parser/workflow.ts'
import type { RunState } from './run-state.ts'

/** Bytes of all outputs as JSON: those of a job must fit into one report. */
const outputsMaxBytes = 256 * 1024

type Options = {
  /** Whose outputs they are, and its name in the log. */
  kind: 'job' | 'workflow'
  name: string
  outputs: Record<string, Template>
  scope: Scope
}

/** Evaluates outputs. Those that contain a secret are left out, which the log says. Throws when they are too large. */
export async function evaluateOutputs(
  { masker, emit }: Pick<RunState, 'masker' | 'emit'>,
  { kind, name, outputs, scope }: Options,
): Promise<Record<string, string>> {
  const values: Record<string, string> = {}
  for (const [id, template] of Object.entries(outputs)) {
    const value = evaluateText(template, scope)
    if (!masker.finds(value)) {
      values[id] = value
      continue
    }
    const text = `${name}: the output ${id} is omitted because it contains a secret.\n`
    await emit({ kind: 'output', step: null, text })
  }
  if (Buffer.byteLength(JSON.stringify(values)) > outputsMaxBytes) {
    throw new Error(`The outputs of the ${kind} exceed ${outputsMaxBytes} bytes; pass on less.`)
  }
  return values
}
