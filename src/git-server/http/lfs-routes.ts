import { Problem } from '#base/problem.ts'
import type { StreamRoute } from '#http/route.ts'
import { lfsRefusal } from '../requests/git-request.ts'

type Dependencies = { find: StreamRoute['find'] }

// A batch request names a few hundred objects at most.
const requestMaxBytes = 1024 * 1024

/**
 * The routes of the Git LFS API, which refuse every request in its error format:
 * https://github.com/git-lfs/git-lfs/tree/main/docs/api. Access is checked first, so a response does not reveal whether
 * a repository exists.
 */
export function lfsRoutes({ find }: Dependencies): StreamRoute[] {
  const common = {
    kind: 'stream',
    path: '/repos/:repository/info/lfs/:path*',
    tag: 'git',
    permissionFor: () => 'repo:read',
    find,
    isLongLived: false,
    consumes: undefined,
    maxBytes: requestMaxBytes,
    produces: undefined,
    problemFormat: 'git-lfs',
    problems: ['repository_not_found', 'body_too_large', 'lfs_not_supported'],
    async serve() {
      throw new Problem('lfs_not_supported', lfsRefusal)
    },
  } as const satisfies Partial<StreamRoute>
  const parameters = ['path', 'id', 'cursor', 'limit', 'refspec']

  return [
    {
      ...common,
      problems: [...common.problems],
      method: 'GET',
      operationId: 'getLfs',
      summary: 'Read from Git LFS (not supported)',
      description: 'Git LFS is not supported; every request fails.',
      parameters,
      optionalParameters: parameters,
    },
    {
      ...common,
      problems: [...common.problems],
      method: 'POST',
      operationId: 'postLfs',
      summary: 'Request Git LFS objects or locks (not supported)',
      description: 'Git LFS is not supported; every request fails.',
      parameters: [],
    },
  ]
}
