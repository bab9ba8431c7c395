import { Problem } from '#base/problem.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { FindRequest, StreamRoute } from '#http/route.ts'
import type { Repositories, Repository } from '#repositories/repositories.ts'
import type { GitEngine } from '../git-engine.ts'
import type { Service } from '../requests/git-request.ts'
import { createGitOverHttp, type HttpExchange } from './git-over-http.ts'
import { lfsRoutes } from './lfs-routes.ts'

type Dependencies = {
  repositories: Pick<Repositories, 'openForGit'>
  engine: GitEngine
  settings: Pick<PlainSettings, 'fetchRequestMaxBytes' | 'pushMaxBytes'>
}

const permissionFor = (service: Service) =>
  service === 'git-upload-pack' ? 'repo:read' : 'repo:write'

/** The routes of Git's smart protocol at `/repos/<name>.git`, and of Git LFS, which is refused. */
export function gitRoutes({ repositories, engine, settings }: Dependencies): StreamRoute[] {
  const gitOverHttp = createGitOverHttp(engine)
  const find = ({ principal, permission, params }: FindRequest): Promise<Repository> => {
    const { repository = '' } = params
    if (!repository.endsWith('.git')) {
      throw new Problem(
        'route_not_found',
        `The Git URL of a repository ends in .git: /repos/${repository}.git`,
      )
    }
    return repositories.openForGit(principal, repository.slice(0, -'.git'.length), permission)
  }

  return [
    {
      kind: 'stream',
      method: 'GET',
      path: '/repos/:repository/info/refs',
      operationId: 'advertiseRefs',
      tag: 'git',
      summary: 'Advertise refs to a Git client',
      description:
        'Starts a fetch with `?service=git-upload-pack` or a push with `?service=git-receive-pack`.',
      parameters: ['service'],
      permissionFor: (query) => permissionFor(serviceIn(query)),
      find,
      isLongLived: true,
      consumes: undefined,
      maxBytes: 0,
      produces: 'application/x-git-upload-pack-advertisement',
      problems: ['repository_not_found', 'git_limit_exceeded', 'storage_full'],
      serve: (exchange) => gitOverHttp.advertise(serviceIn(exchange.query), toExchange(exchange)),
    },
    {
      kind: 'stream',
      method: 'POST',
      path: '/repos/:repository/git-upload-pack',
      operationId: 'uploadPack',
      tag: 'git',
      summary: 'Fetch with a Git client',
      parameters: [],
      permissionFor: () => permissionFor('git-upload-pack'),
      find,
      isLongLived: true,
      consumes: 'application/x-git-upload-pack-request',
      maxBytes: settings.fetchRequestMaxBytes,
      produces: 'application/x-git-upload-pack-result',
      problems: ['repository_not_found', 'git_busy', 'request_timed_out'],
      serve: (exchange) => gitOverHttp.fetch(toExchange(exchange)),
    },
    {
      kind: 'stream',
      method: 'POST',
      path: '/repos/:repository/git-receive-pack',
      operationId: 'receivePack',
      tag: 'git',
      summary: 'Push with a Git client',
      parameters: [],
      permissionFor: () => permissionFor('git-receive-pack'),
      find,
      // Access is checked again when the pre-receive hook runs, which ends a push that lost it.
      isLongLived: false,
      consumes: 'application/x-git-receive-pack-request',
      maxBytes: settings.pushMaxBytes,
      produces: 'application/x-git-receive-pack-result',
      problems: ['repository_not_found', 'request_timed_out', 'storage_full'],
      serve: (exchange) => gitOverHttp.push(toExchange(exchange)),
    },
    ...lfsRoutes({ find }),
  ]
}

function toExchange({ found, ...exchange }: Parameters<StreamRoute['serve']>[0]): HttpExchange {
  // What `find` above returned.
  return { ...exchange, repository: found as Repository }
}

function serviceIn(query: URLSearchParams): Service {
  const service = query.get('service')
  if (service === 'git-upload-pack' || service === 'git-receive-pack') return service
  throw new Problem(
    'malformed_git_request',
    "Only Git's smart protocol is supported: use service=git-upload-pack or service=git-receive-pack.",
  )
}
