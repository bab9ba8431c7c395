import { printable } from '../base/format.ts'
import type { Conclusion, RunEntry } from './plan.ts'

/** A piece of a log: whole lines, and what stands before each of them. */
export type LogPiece = { prefix: string; text: string }

type Names = { jobs: Map<number, string>; steps: Map<number, { job: number; name: string }> }

/**
 * Turns what a run tells into its log as people read it: a heading for each step, what it wrote, and how it failed.
 * With several jobs each line begins with its job, as they run at the same time. Give it all entries in order;
 * of a run that was begun to be read before, the planned ones are enough to go on.
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
          `${markOf(conclusion)} ${wordsOf(conclusion)}${fault === '' ? '' : `: ${fault}`}\n`,
        )
      }
    }
  }
}

/** The line above what a step writes; without a job's name where each line has it. */
function stepHeading(jobName: string, stepName: string): string {
  return `▶ ${jobName === '' ? '' : `${jobName} › `}${stepName}`
}

/** The line below what a step wrote that went wrong; empty for one that did not. */
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
    if (hasFailedCode) return `✗ exit code ${exitCode}; the job goes on`
    return fault === '' ? '' : `✗ ${fault} The job goes on.`
  }
  if (conclusion === 'skipped') return ''
  const code = hasFailedCode ? `exit code ${exitCode}` : ''
  return `${markOf(conclusion)} ${[code, fault].filter((part) => part !== '').join(': ') || wordsOf(conclusion)}`
}

/** A piece as it stands in the log: each line with what it belongs to before it. */
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

function wordsOf(conclusion: Conclusion): string {
  return conclusion.replaceAll('_', ' ')
}

function endingInLine(text: string): string {
  return text === '' || text.endsWith('\n') ? text : `${text}\n`
}
