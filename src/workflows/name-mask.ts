import type { Sources } from './workflow-sources.ts'

type OpenSecrets = (repositoryId: string) => Promise<Record<string, string>>

/**
 * Creates a function that masks the repository's secrets in the name, labels and concurrency groups of a run: an
 * expression in them may yield a secret value, for example from an input.
 */
export async function createNameMask(
  openSecrets: OpenSecrets,
  repositoryId: string,
  { workflows, calledWorkflows }: Pick<Sources, 'workflows' | 'calledWorkflows'>,
): Promise<(text: string) => string> {
  const texts = [...workflows, ...calledWorkflows].map((one) => [
    one.runName,
    one.concurrency,
    one.jobs.map((job) => job.runsOn),
  ])
  if (!JSON.stringify(texts).includes('${{')) return (text) => text
  // If the secrets cannot be opened, the run fails when it starts.
  const secrets = await openSecrets(repositoryId).catch(() => ({}))
  const { createMasker } = await import('#actions/secret-masking/masker.ts')
  return createMasker(Object.values(secrets)).mask
}
