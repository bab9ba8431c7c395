import { maskAndShorten } from '#actions/secret-masking/mask-and-shorten.ts'
import { printableLine } from '#base/format.ts'
import type { UrlOfRun } from '../run-files/held-run.ts'
import type { ListedRun } from '../run-store.ts'
import type { createRunViews } from './run-view.ts'

/** Describes how a run has failed, in lines for a terminal; all texts are masked. */
export type DescribeFailure = (
  run: ListedRun,
  repository: { name: string; path: string },
  of: { consequence: string; shownLines: number },
) => Promise<string>

type Dependencies = { views: Pick<ReturnType<typeof createRunViews>, 'one'>; urlOf: UrlOfRun }

const lineMaxLength = 400

export function createDescribeFailure({ views, urlOf }: Dependencies): DescribeFailure {
  return async (run, repository, { consequence, shownLines }) => {
    const { failure } = await views.one(run, repository)
    const { job, step, exitCode, reason, lastLines = [] } = failure ?? {}
    const where = [job && `job ${job}`, step && `step "${step}"`].filter(Boolean).join(', ')
    const why =
      reason || (exitCode === null || exitCode === undefined ? '' : `exit code ${exitCode}`)
    const lines = [
      `Run ${run.number} (${runNameOf(run)}) ended with ${run.conclusion}; ${consequence}.`,
      [where, why || (failure ? '' : run.fault)].filter(Boolean).join(': '),
      ...lastLines.slice(-shownLines).map((line) => `  ${line}`),
      urlOf(repository, run),
    ]
    return lines.filter(Boolean).flatMap(toShown).join('\n')
  }
}

/** The name of a run on one line. */
export function runNameOf({ name }: ListedRun): string {
  return printableLine(name)
}

function toShown(text: string): string[] {
  return text
    .split('\n')
    .map((line) =>
      maskAndShorten(printableLine(line), { mask: (same) => same, maxLength: lineMaxLength }),
    )
}
