import type { Conclusion, RunEntry } from '#actions/workflow-engine/plan.ts'
import { toTable } from '#base/format.ts'

type Line = {
  name: string
  depth: number
  startedAt: number
  ms: number
  conclusion: Conclusion | ''
}

/** Collects the conclusions and times of jobs and steps for the table at the end of a run. */
export function createRunSummary() {
  const jobs = new Map<number, { line: Line; steps: Line[] }>()
  const steps = new Map<number, Line>()
  const newLine = (name: string, depth: number): Line => ({
    ...{ name, depth, startedAt: 0, ms: 0, conclusion: '' },
  })
  const end = (line: Line | undefined, at: number, conclusion: Conclusion) => {
    if (line)
      Object.assign(line, { conclusion, ms: line.startedAt === 0 ? 0 : at - line.startedAt })
  }

  return {
    take(entry: RunEntry): void {
      if (entry.kind === 'job-planned') {
        jobs.set(entry.job, { line: newLine(entry.name, 0), steps: [] })
      } else if (entry.kind === 'step-planned') {
        const line = newLine(entry.name, 1)
        steps.set(entry.step, line)
        jobs.get(entry.job)?.steps.push(line)
      } else if (entry.kind === 'job-started') {
        Object.assign(jobs.get(entry.job)?.line ?? {}, { startedAt: entry.at })
      } else if (entry.kind === 'step-started') {
        const { at: startedAt, name } = entry
        const start = name === undefined ? { startedAt } : { startedAt, name }
        Object.assign(steps.get(entry.step) ?? {}, start)
      } else if (entry.kind === 'job-ended') {
        end(jobs.get(entry.job)?.line, entry.at, entry.conclusion)
      } else if (entry.kind === 'step-ended') {
        end(steps.get(entry.step), entry.at, entry.conclusion)
      }
    },
    toText(): string {
      const lines = [...jobs.values()].flatMap((job) => [job.line, ...job.steps])
      return toTable(lines.map(toCells))
    },
  }
}

function toCells({ name, depth, ms, conclusion }: Line): string[] {
  const time = conclusion === 'skipped' || ms === 0 ? '' : `${(ms / 1000).toFixed(1)} s`
  return [shortened(`${'  '.repeat(depth)}${name}`), conclusion.replaceAll('_', ' '), time]
}

// Fits a terminal of 80 columns. Jobs of a matrix differ at the ends of their names, which are kept.
const maxNameLength = 58
const nameEndLength = 20

function shortened(name: string): string {
  if (name.length <= maxNameLength) return name
  const start = name.slice(0, maxNameLength - nameEndLength - 1)
  return `${start}…${name.slice(-nameEndLength)}`.toWellFormed()
}
