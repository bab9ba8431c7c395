import type { Git } from '../../git/process/git-process.ts'
import { moveRefs, type RefMove } from '../../git/refs/move-refs.ts'
import type { Directories } from '../../repositories/directories.ts'
import type { RepositoryHolds } from '../../repositories/repository-holds.ts'

type Dependencies = {
  git: Git
  directories: Pick<Directories, 'pathOf'>
  repositoryHolds: Pick<RepositoryHolds, 'acquire'>
}

/**
 * Moves refs of a repository that nobody has been in for it: its locks must not be taken for what a killed git left, and
 * what that left must not be in the way. Throws a GitFailure when git refuses.
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
