import type { Workflow } from '../workflow-syntax/workflow.ts'

type OpenSecrets = (repositoryId: string) => Promise<Record<string, string>>

/**
 * Masks the secrets of a repository in what workflows call a run: whoever starts one may have put a value there.
 * Where nothing is made up there is nothing to mask.
 */
export async function createNameMask(
  openSecrets: OpenSecrets,
  repositoryId: string,
  workflows: Workflow[],
): Promise<(name: string) => string> {
  if (!workflows.some(({ runName }) => runName)) return (name) => name
  // Without the key for them the run will say so when it begins.
  const secrets = await openSecrets(repositoryId).catch(() => ({}))
  const { createMasker } = await import('../masking/masker.ts')
  return createMasker(Object.values(secrets)).mask
}
