import type { RunJobRow } from '../database/schema.ts'
import type { ReusedJob } from '../workflow-engine/plan.ts'
import type { SourceFile } from '../workflow-parser/workflow.ts'

/**
 * The jobs of an attempt that stay as they were when those run again that failed: the ones that succeeded,
 * unless one failed on the way to them, for what they did may have been of its failure.
 */
export async function reusedJobs(files: SourceFile[], jobs: RunJobRow[]): Promise<ReusedJob[]> {
  if (!jobs.some(({ conclusion }) => conclusion === 'success')) return []
  const needs = await readNeeds(files)
  const keyOf = (file: string, id: string) => JSON.stringify([file, id])
  const failed = new Set(
    jobs
      .filter(({ conclusion }) => conclusion !== 'success' && conclusion !== 'skipped')
      .map(({ file, jobId }) => keyOf(file, jobId)),
  )

  function isBehindFailure({ file, jobId }: RunJobRow): boolean {
    const seen = new Set<string>()
    const open = [...(needs.get(file)?.get(jobId) ?? [])]
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

/** What each job of each file needs. */
async function readNeeds(files: SourceFile[]): Promise<Map<string, Map<string, string[]>>> {
  // Loaded only where it is used: it takes memory and time at the start.
  const { parseWorkflow } = await import('../workflow-parser/parse.ts')
  return new Map(
    files.map((file) => {
      const jobs = parseWorkflow(file).workflow?.jobs ?? []
      return [file.path, new Map(jobs.map(({ id, needs }) => [id, needs]))]
    }),
  )
}
