import type { Clock } from '#base/clock.ts'
import { isId } from '#base/ids.ts'
import { Problem } from '#base/problem.ts'
import type { PlainSettings } from '#config/settings.ts'
import { lfsContentType } from '#http/problem-response.ts'
import type { StreamExchange, StreamRoute } from '#http/route.ts'
import type { LfsLocks } from '#repositories/lfs-locks.ts'
import type { LfsObjects } from '#repositories/lfs-objects.ts'
import type { Repositories } from '#repositories/repositories.ts'
import { findByGitUrl } from '../requests/find-repository.ts'
import { originOf } from './lfs-address.ts'
import { createLfsBatch } from './lfs-batch.ts'
import { isReachableFrom } from './lfs-direct.ts'
import {
  findAny,
  foundRepository,
  type LfsRouteBase,
  readJson,
  requestMaxBytes,
  sendLfs,
} from './lfs-exchange.ts'
import { lfsLockRoutes, listParameters as parameters } from './lfs-lock-routes.ts'
import { assertOid, lfsRequestInvalid, toBatchRequest, toPointer } from './lfs-request.ts'
import { receiveLfsObject, sendLfsObject } from './lfs-transfer.ts'

type Dependencies = {
  repositories: Pick<Repositories, 'openForGit'>
  lfsObjects: LfsObjects
  lfsLocks: LfsLocks
  settings: Pick<PlainSettings, 'lfsObjectMaxBytes' | 'gitStallSeconds' | 'bodySeconds' | 'baseUrl'>
  /** The public base URL of the service. */
  baseUrl: () => string
  clock: Clock
  /** Called for each transfer of an object. */
  onTransfer: (
    repositoryId: string,
    transfer: { receivedBytes?: number; sentBytes?: number },
  ) => void
}

const maxOrigins = 100

/** The routes of the Git LFS API: https://github.com/git-lfs/git-lfs/tree/main/docs/api */
export function lfsRoutes(dependencies: Dependencies): StreamRoute[] {
  const { repositories, lfsObjects, settings, baseUrl, clock, onTransfer } = dependencies
  const batch = createLfsBatch({ lfsObjects, settings })
  // It is the same for all clients but those of other origins.
  const directOrigins = new Map<string, boolean>()

  async function isDirect(origin: string): Promise<boolean> {
    const { direct } = lfsObjects
    if (!direct) return false
    if (directOrigins.size > maxOrigins) directOrigins.clear()
    const isReachable =
      directOrigins.get(origin) ?? (await isReachableFrom(origin, direct.endpoint))
    // An unknown address may be known in a moment.
    if (isReachable !== undefined) directOrigins.set(origin, isReachable)
    return isReachable ?? false
  }

  const stallMs = settings.gitStallSeconds * 1000
  const find: StreamRoute['find'] = (request) => findByGitUrl(repositories, request)
  const common = {
    kind: 'stream',
    tag: 'git',
    find,
    isLongLived: false,
    consumes: undefined,
    maxBytes: requestMaxBytes,
    produces: lfsContentType,
    problemFormat: 'git-lfs',
    allowsKeys: true,
    parameters: [],
  } as const satisfies Partial<StreamRoute>

  return [
    {
      ...common,
      method: 'POST',
      path: '/repos/:repository/info/lfs/objects/batch',
      operationId: 'batchLfsObjects',
      summary: 'Request transfers of Git LFS objects',
      description:
        'Returns for each of at most 1000 objects how it is downloaded or uploaded, in the format of the [Git LFS Batch API](https://github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md). Downloads need `repo:read`, uploads `repo:write`.',
      // The operation in the body determines it.
      permissionFor: () => undefined,
      allowsAnonymous: true,
      problems: [
        'repository_not_found',
        'body_too_large',
        'lfs_request_invalid',
        'lfs_hash_unsupported',
        'too_many_lfs_objects',
      ],
      async serve(exchange) {
        const body = await readJson(exchange, settings)
        const permission = isUpload(body) ? 'repo:write' : 'repo:read'
        const { id } = await exchange.find(permission)
        const origin = originOf(exchange, settings, baseUrl)
        const request = toBatchRequest(body)
        const { kind, expiresAt } = exchange.principal
        const expiresIn = expiresAt ? Math.floor((expiresAt - clock.now()) / 1000) : null
        const links = {
          address: `${origin}/repos/${exchange.params.repository}/info/lfs/objects`,
          authorization: exchange.request.headers.authorization,
          expiresIn,
          verificationExpiresIn: kind === 'ssh-key' ? null : expiresIn,
          isDirect: await isDirect(origin),
        }
        sendLfs(exchange, await batch.respond(id, request, links))
      },
    },
    {
      ...common,
      method: 'POST',
      path: '/repos/:repository/info/lfs/objects/verify',
      operationId: 'verifyLfsObject',
      summary: 'Verify an uploaded Git LFS object',
      description:
        'Succeeds if the repository has the object with the given `oid` and `size`. `upload` identifies an upload to the bucket of a shared store.',
      permissionFor: () => 'repo:write',
      allowsKeys: 'expired',
      parameters: ['upload'],
      optionalParameters: ['upload'],
      problems: [
        'repository_not_found',
        'body_too_large',
        'lfs_request_invalid',
        'lfs_object_not_found',
        'lfs_object_invalid',
        'namespace_full',
      ],
      async serve(exchange) {
        const pointer = toPointer(await readJson(exchange, settings))
        await batch.verify(foundRepository(exchange).id, pointer, uploadIn(exchange))
        sendLfs(exchange, {})
      },
    },
    {
      ...common,
      method: 'PUT',
      path: '/repos/:repository/info/lfs/objects/:oid',
      operationId: 'uploadLfsObject',
      summary: 'Upload a Git LFS object',
      description: 'The body is the object. It is stored if its SHA-256 is the `oid`.',
      permissionFor: () => 'repo:write',
      isLongLived: true,
      maxBytes: settings.lfsObjectMaxBytes,
      problems: [
        'repository_not_found',
        'body_too_large',
        'lfs_object_not_found',
        'lfs_object_invalid',
        'request_timed_out',
        'storage_full',
        'namespace_full',
      ],
      async serve(exchange) {
        const object = { repositoryId: foundRepository(exchange).id, oid: oidIn(exchange) }
        const receivedBytes = await receiveLfsObject(lfsObjects, object, exchange)
        onTransfer(object.repositoryId, { receivedBytes })
        sendLfs(exchange, {})
      },
    },
    {
      ...common,
      method: 'GET',
      path: '/repos/:repository/info/lfs/objects/:oid',
      operationId: 'downloadLfsObject',
      summary: 'Download a Git LFS object',
      description: 'Accepts a `Range` of bytes, so that an interrupted download can be resumed.',
      permissionFor: () => 'repo:read',
      allowsAnonymous: true,
      isLongLived: true,
      maxBytes: 0,
      produces: 'application/octet-stream',
      problems: ['repository_not_found', 'lfs_object_not_found'],
      async serve(exchange) {
        const object = { repositoryId: foundRepository(exchange).id, oid: oidIn(exchange) }
        const { socket } = exchange.response
        const sentBefore = socket?.bytesWritten ?? 0
        try {
          await sendLfsObject(lfsObjects, object, { ...exchange, stallMs })
        } finally {
          const sentBytes = (socket?.bytesWritten ?? 0) - sentBefore
          onTransfer(object.repositoryId, { sentBytes })
        }
      },
    },
    ...lfsLockRoutes(common, dependencies),
    ...otherRoutes(common),
  ]
}

/** The routes of the rest of the API, which refuse every request in its error format. */
function otherRoutes(common: LfsRouteBase): StreamRoute[] {
  const refusing = {
    ...common,
    path: '/repos/:repository/info/lfs/:path*',
    description: 'Every request fails.',
    permissionFor: () => undefined,
    produces: undefined,
    problems: ['repository_not_found', 'body_too_large', 'lfs_not_supported'],
    async serve(exchange) {
      await findAny(exchange)
      const detail = 'This server has the batch API and the locks API of Git LFS, and no other.'
      throw new Problem('lfs_not_supported', detail)
    },
  } satisfies Partial<StreamRoute>
  return [
    {
      ...refusing,
      method: 'GET',
      operationId: 'getLfs',
      summary: 'Other reading requests of Git LFS (not supported)',
      parameters,
      optionalParameters: parameters,
    },
    {
      ...refusing,
      method: 'POST',
      operationId: 'postLfs',
      summary: 'Other requests of Git LFS (not supported)',
    },
  ]
}

function oidIn({ params }: StreamExchange): string {
  return assertOid(params.oid ?? '')
}

function uploadIn({ query }: StreamExchange): string | undefined {
  const id = query.get('upload') ?? undefined
  if (id === undefined || isId(id)) return id
  throw lfsRequestInvalid(
    '`upload` must be the one in the address to verify that the response to the batch has.',
  )
}

function isUpload(body: unknown): boolean {
  return Object(body).operation === 'upload'
}
