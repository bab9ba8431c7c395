import type { About } from '#events/github-payloads/about.ts'
import { readDefaultBranch } from '#git/refs/refs.ts'
import type { RepositorySummary } from './repository-summary-store.ts'

/** Reads the present state of a repository for event payloads. */
export async function readPayloadContext(
  summary: RepositorySummary,
  { directory, sender, baseUrl }: { directory: string; sender: string; baseUrl: string },
): Promise<About> {
  const { id, name, ownerUsername, createdAt, visibility } = summary
  const defaultBranch = await readDefaultBranch(directory)
  const repository = { id, name, ownerUsername, createdAt, visibility, defaultBranch }
  return { repository, sender, baseUrl }
}
