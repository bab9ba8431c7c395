import type { StorageStep } from '../workflow-parser/workflow.ts'
import { ArchiveError } from './archives.ts'
import { afterTime } from './cancellation.ts'
import type { PathPatterns } from './path-patterns.ts'
import type { PlannedCommand } from './planning/plan-steps.ts'
import type { RunStorage } from './run-storage.ts'
import type { RunningStep } from './running-job.ts'
import { type StepEnd, stepEndOf } from './step-end.ts'

/** How many paths get a warning of their own; the rest is counted. */
const maxNamedPaths = 20

/** A running step that saves or restores artifacts or caches. */
export type StorageContext = RunningStep & {
  planned: PlannedCommand
  step: StorageStep
  /** The name of the step, with those around it. */
  name: string
  timeoutMs: number
  /** The values of `with` by their names in lower case. */
  inputs: ReadonlyMap<string, string>
  storage: RunStorage
}

/** The value of an input without surrounding white space; empty when it is not given. */
export function inputOf({ inputs }: Pick<StorageContext, 'inputs'>, name: string): string {
  return (inputs.get(name.toLowerCase()) ?? '').trim()
}

/** `true` or `false`, as in YAML 1.2. Throws for any other value. */
export function flagOf(context: Pick<StorageContext, 'inputs'>, name: string): boolean {
  const value = inputOf(context, name)
  if (/^(true|True|TRUE)$/.test(value)) return true
  if (/^(false|False|FALSE)?$/.test(value)) return false
  throw new ArchiveError(`The input ${name} is neither true nor false.`)
}

export function inputLines(context: Pick<StorageContext, 'inputs'>, name: string): string[] {
  return inputOf(context, name)
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
}

/** Writes a line to the log. */
export async function logLine(
  { output }: Pick<StorageContext, 'output'>,
  text: string,
): Promise<void> {
  await output.note(`${text}\n`)
}

/** Writes a warning to the log, which is also an annotation. */
export async function warn(
  { output }: Pick<StorageContext, 'output'>,
  text: string,
): Promise<void> {
  const escaped = text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A')
  await output.push(Buffer.from(`::warning::${escaped}\n`))
}

/** Says which paths are left out because steps cannot write there. */
export async function warnOfElsewhere(
  context: Pick<StorageContext, 'output'>,
  { elsewhere }: PathPatterns,
): Promise<void> {
  for (const path of elsewhere) {
    await warn(context, `${path} is left out: it is not in the workspace, the home or /tmp.`)
  }
}

/** Says which paths and links are not followed. */
export async function warnOfLeadingOut(
  context: Pick<StorageContext, 'output'>,
  paths: readonly string[],
): Promise<void> {
  for (const [index, path] of paths.entries()) {
    if (index === maxNamedPaths) break
    await warn(context, `${path} is left out: it leads out of the workspace, the home and /tmp.`)
  }
  const others = paths.length - maxNamedPaths
  if (others > 0) await warn(context, `${others} other paths that lead out are left out, too.`)
}

/** Formats a number of bytes as GitHub does in its logs. */
export function toMegabytes(bytes: number): string {
  return `${(bytes / 1024 ** 2).toFixed(1)} MiB`
}

/** Gives a step its time: `work` gets a signal that ends it. */
export async function withinTime(
  { signal, timeoutMs }: { signal: AbortSignal; timeoutMs: number },
  work: (signal: AbortSignal) => Promise<StepEnd>,
): Promise<StepEnd> {
  const late = new AbortController()
  using _timer = afterTime(timeoutMs, () => late.abort())
  try {
    return await work(AbortSignal.any([signal, late.signal]))
  } catch (error) {
    if (!signal.aborted && !late.signal.aborted) throw error
    const reason = signal.aborted ? 'cancelled' : 'timed-out'
    return stepEndOf({ reason, exitCode: null, detail: '' }, { timeoutMs, stop: signal.reason })
  }
}
