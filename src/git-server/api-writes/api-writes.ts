import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { FreeSpace } from '../../config/free-space.ts'
import type { PlainSettings } from '../../config/settings.ts'
import type { Git } from '../../git/process/git-process.ts'
import type { Route } from '../../http/route.ts'
import type { Directories } from '../../repositories/directories.ts'
import type { Repositories } from '../../repositories/repositories.ts'
import type { RepositoryHolds } from '../../repositories/repository-holds.ts'
import type { PushAuthority } from '../receive-pack/receive-pack.ts'
import type { GitLimiters } from '../requests/git-limiters.ts'
import type { Operation } from '../requests/operations.ts'
import { createPushFromApi } from './api-push.ts'
import { createChangeRef } from './change-ref.ts'
import { createCreateCommit } from './create-commit.ts'
import { createMergeBranch } from './merge-branch.ts'
import { writeRoutes } from './write-routes.ts'

type Dependencies = {
  git: Git
  pushes: PushAuthority
  directories: Pick<Directories, 'scratchOf' | 'removeScratch'>
  repositories: Repositories
  repositoryHolds: Pick<RepositoryHolds, 'acquire'>
  limiters: GitLimiters
  freeSpace: FreeSpace
  settings: PlainSettings
  clock: Clock
  log: Log
  /** The public base URL of the service. */
  baseUrl: () => string
  /** Called when an operation has ended. */
  onOperation: (operation: Operation) => void
}

/** Commits, merges and changes of refs through the API. */
export function createApiWrites(dependencies: Dependencies): { routes: Route[] } {
  const { repositories, settings } = dependencies
  const push = createPushFromApi(dependencies)
  const parts = { ...dependencies, push }
  const { commitBodyMaxBytes } = settings
  return {
    routes: writeRoutes({
      repositories,
      createCommit: createCreateCommit(parts),
      mergeBranch: createMergeBranch(parts),
      changeRef: createChangeRef(parts),
      commitBodyMaxBytes,
    }),
  }
}
