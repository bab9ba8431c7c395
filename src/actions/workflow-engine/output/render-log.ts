import { printable } from '#base/format.ts'
import type { Conclusion, RunEntry } from '../plan.ts'

/** A piece of a log: whole lines, and the prefix of each of them. */
export type LogPiece = { prefix: string; text: string }

type Names = { jobs: Map<number, string>; steps: Map<number, { job: number; name: string }> }

/**
 * Creates a renderer from report entries to a readable log: a heading for each step, its output, and its failure.
 * With several jobs, which run concurrently, each line starts with the name of its job. Needs all entries in order;
 * to resume in the middle of a run, the planned ones suffice.
 */
export function createLogRenderer(): (entry: RunEntry) => LogPiece {
  const names: Names = { jobs: new Map(), steps: new Map() }

  function lines(job: number, text: string): LogPiece {
    return { prefix: names.jobs.size > 1 ? `${names.jobs.get(job) ?? ''} | ` : '', text }
  }

  return (entry) => {
    switch (entry.kind) {
      case 'isolation':
        return plain(`Sandbox: ${entry.description}\n`)
      case 'job-planned':
        names.jobs.set(entry.job, printable(entry.name))
        return plain('')
      case 'step-planned':
        names.steps.set(entry.step, { job: entry.job, name: printable(entry.name) })
        return plain('')
      case 'job-started':
      case 'annotation':
        return plain('')
      case 'step-started': {
        const { job = 0, name: planned = '' } = names.steps.get(entry.step) ?? {}
        const name = entry.name === undefined ? planned : printable(entry.name)
        const jobName = names.jobs.get(job) ?? ''
        return lines(job, `${stepHeading(names.jobs.size > 1 ? '' : jobName, name)}\n`)
      }
      case 'output': {
        if (entry.step === null) return plain(endingInLine(entry.text))
        const { job = 0 } = names.steps.get(entry.step) ?? {}
        return lines(job, endingInLine(entry.text))
      }
      case 'step-ended': {
        const { job = 0 } = names.steps.get(entry.step) ?? {}
        const text = stepFailure(entry)
        return lines(job, text === '' ? '' : `${text}\n`)
      }
      case 'job-ended': {
        const { job, conclusion, fault } = entry
        return lines(job, fault === '' ? '' : `${markOf(conclusion)} ${fault}\n`)
      }
      case 'run-ended': {
        const { conclusion, fault } = entry
        return plain(
          `${markOf(conclusion)} ${toWords(conclusion)}${fault === '' ? '' : `: ${fault}`}\n`,
        )
      }
    }
  }
}

/** The line above a step's output; without the job's name when that is the prefix of each line. */
function stepHeading(jobName: string, stepName: string): string {
  return `▶ ${jobName === '' ? '' : `${jobName} › `}${stepName}`
}

/** The line below the output of a failed step; empty if it did not fail. */
function stepFailure({
  conclusion,
  exitCode,
  fault,
}: {
  conclusion: Conclusion
  exitCode: number | null
  fault: string
}): string {
  const hasFailedCode = exitCode !== null && exitCode !== 0
  if (conclusion === 'success') {
    if (hasFailedCode) return `✗ exit code ${exitCode}; the job continues`
    return fault === '' ? '' : `✗ ${fault} The job continues.`
  }
  if (conclusion === 'skipped') return ''
  const code = hasFailedCode ? `exit code ${exitCode}` : ''
  return `${markOf(conclusion)} ${[code, fault].filter((part) => part !== '').join(': ') || toWords(conclusion)}`
}

/** Formats a piece for the log, with its prefix before each line. */
export function renderPiece({ prefix, text }: LogPiece): string {
  return prefix === ''
    ? text
    : text.replace(/(^|\n)(?=[\s\S])/g, (_, end: string) => `${end}${prefix}`)
}

function plain(text: string): LogPiece {
  return { prefix: '', text }
}

function markOf(conclusion: Conclusion): string {
  return conclusion === 'success' ? '✓' : conclusion === 'failure' ? '✗' : '■'
}

function toWords(conclusion: Conclusion): string {
  return conclusion.replaceAll('_', ' ')
}

function endingInLine(text: string): string {
  return text === '' || text.endsWith('\n') ? text : `${text}\n`
}
