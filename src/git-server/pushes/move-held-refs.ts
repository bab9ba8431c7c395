import type { Git } from '#git/process/git-process.ts'
import { moveRefs, type RefMove } from '#git/refs/move-refs.ts'
import type { Directories } from '#repositories/directories.ts'
import type { RepositoryHolds } from '#repositories/repository-holds.ts'

type Dependencies = {
  git: Git
  directories: Pick<Directories, 'pathOf'>
  repositoryHolds: Pick<RepositoryHolds, 'acquire'>
}

/**
 * Moves refs under a repository hold: clean-up must not remove the locks of this git, and must have removed those of
 * killed ones. Throws a GitError when git refuses.
 */
export async function moveHeldRefs(
  { git, directories, repositoryHolds }: Dependencies,
  repositoryId: string,
  moves: RefMove[],
): Promise<void> {
  await using hold = await repositoryHolds.acquire(repositoryId)
  const directory = directories.pathOf(repositoryId)
  await moveRefs(git, { directory, watch: hold.watch }, moves)
}
