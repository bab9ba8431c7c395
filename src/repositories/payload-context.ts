import { readDefaultBranch } from '../git/refs/refs.ts'
import type { About } from '../github-payloads/about.ts'
import type { RepositorySummary } from './repository-summary-store.ts'

/** What a payload tells of a repository as it is now. */
export async function readPayloadContext(
  place: RepositorySummary,
  { directory, sender, baseUrl }: { directory: string; sender: string; baseUrl: string },
): Promise<About> {
  const { id, name, ownerUsername, createdAt } = place
  const defaultBranch = await readDefaultBranch(directory)
  return { repository: { id, name, ownerUsername, createdAt, defaultBranch }, sender, baseUrl }
}
