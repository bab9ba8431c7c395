import type { Workflow } from '../workflow-parser/workflow.ts'

type OpenSecrets = (repositoryId: string) => Promise<Record<string, string>>

/**
 * Masks the secrets of a repository in the name, the labels and the concurrency groups of a run: an input may hold a
 * value. Where there is no expression there is nothing to mask.
 */
export async function createNameMask(
  openSecrets: OpenSecrets,
  repositoryId: string,
  workflows: Workflow[],
): Promise<(text: string) => string> {
  const texts = workflows.map((one) => [
    one.runName,
    one.concurrency,
    one.jobs.map((job) => job.runsOn),
  ])
  if (!JSON.stringify(texts).includes('${{')) return (text) => text
  // Without the key for them the run will say so when it begins.
  const secrets = await openSecrets(repositoryId).catch(() => ({}))
  const { createMasker } = await import('../secret-masking/masker.ts')
  return createMasker(Object.values(secrets)).mask
}
