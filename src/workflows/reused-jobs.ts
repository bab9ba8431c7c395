import type { ReusedJob } from '#actions/workflow-engine/plan.ts'
import type { SourceFile } from '#actions/workflow-parser/workflow.ts'
import type { RunJobRow } from '#database/schema.ts'

/**
 * Selects the jobs of an attempt that are reused when failed jobs are run again: those that succeeded, unless one of
 * the jobs that they need, directly or not, failed, because their result may depend on that failure.
 */
export async function reusedJobs(files: SourceFile[], jobs: RunJobRow[]): Promise<ReusedJob[]> {
  if (!jobs.some(({ conclusion }) => conclusion === 'success')) return []
  const needs = await readNeeds(files)
  const keyOf = (file: string, id: string) => JSON.stringify([file, id])
  const failed = new Set(
    jobs
      .filter(({ conclusion }) => conclusion !== 'success' && conclusion !== 'skipped')
      .map(({ file, jobId }) => keyOf(file, topOf(jobId))),
  )

  function isBehindFailure({ file, jobId }: RunJobRow): boolean {
    const top = topOf(jobId)
    // A call is run again as a whole.
    if (top !== jobId && failed.has(keyOf(file, top))) return true
    const seen = new Set<string>()
    const open = [...(needs.get(file)?.get(top) ?? [])]
    for (let id = open.pop(); id !== undefined; id = open.pop()) {
      if (failed.has(keyOf(file, id))) return true
      if (seen.has(id)) continue
      seen.add(id)
      open.push(...(needs.get(file)?.get(id) ?? []))
    }
    return false
  }

  return jobs
    .filter((job) => job.conclusion === 'success' && !isBehindFailure(job))
    .map(({ file, jobId, name, matrix, outputs }) => ({
      file,
      id: jobId,
      name,
      matrix,
      conclusion: 'success' as const,
      outputs: JSON.parse(outputs),
    }))
}

/** The job of the file: of `caller/job`, which a called workflow has, the caller. */
function topOf(jobId: string): string {
  return jobId.split('/', 1)[0] ?? jobId
}

/** The `needs` of each job, by file. */
async function readNeeds(files: SourceFile[]): Promise<Map<string, Map<string, string[]>>> {
  // Imported lazily: the parser costs memory and start-up time.
  const { parseWorkflow } = await import('#actions/workflow-parser/parse.ts')
  return new Map(
    files.map((file) => {
      const jobs = parseWorkflow(file).workflow?.jobs ?? []
      return [file.path, new Map(jobs.map(({ id, needs }) => [id, needs]))]
    }),
  )
}
