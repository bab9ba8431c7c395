import { requireAllRefs } from '#access/may.ts'
import type { Principal } from '#access/principal.ts'
import { printable } from '#base/format.ts'
import { isId } from '#base/ids.ts'
import { Problem } from '#base/problem.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { StreamRoute } from '#http/route.ts'
import { type LfsLock, type LfsLocks, ownerOf } from '#repositories/lfs-locks.ts'
import type { Repository } from '#repositories/repositories.ts'
import {
  findAny,
  foundRepository,
  type LfsRouteBase,
  readJson,
  refuseBody,
  sendLfs,
  toLfsTime,
} from './lfs-exchange.ts'
import { lfsRequestInvalid } from './lfs-request.ts'

type Dependencies = { lfsLocks: LfsLocks; settings: Pick<PlainSettings, 'bodySeconds'> }

/** The parameters of the list of locks. */
export const listParameters = ['path', 'id', 'cursor', 'limit', 'refspec']
const pageMax = 1000
const pathMaxBytes = 1024

/** The routes of the locks API: https://github.com/git-lfs/git-lfs/blob/main/docs/api/locking.md */
export function lfsLockRoutes(
  common: LfsRouteBase,
  { lfsLocks, settings }: Dependencies,
): StreamRoute[] {
  /** A page of locks, and the cursor of the next one if there is one. */
  async function listPage(repository: Repository, filter: object, wanted: WantedPage) {
    const { after, limit } = toPage(wanted)
    const locks = await lfsLocks.list(repository, filter, { after, limit: limit + 1 })
    const page = locks.slice(0, limit)
    return { page, ...(locks.length > limit && { next_cursor: page.at(-1)?.id }) }
  }

  return [
    {
      ...common,
      method: 'POST',
      path: '/repos/:repository/info/lfs/locks',
      operationId: 'createLfsLock',
      summary: 'Lock a file',
      description:
        'Locks the file at `path` on all branches: pushes of other users that change it are refused. See the [Git LFS File Locking API](https://github.com/git-lfs/git-lfs/blob/main/docs/api/locking.md).',
      permissionFor: () => 'repo:write',
      problems: [
        'repository_not_found',
        'body_too_large',
        'lfs_request_invalid',
        'token_limited',
        'lfs_lock_exists',
        'too_many_lfs_locks',
      ],
      async serve(exchange) {
        requireAllRefs(exchange.principal)
        const path = toPath(await readJson(exchange, settings))
        const repository = foundRepository(exchange)
        const { lock, isNew } = await lfsLocks.create(exchange.principal, repository, path)
        if (!isNew) throw lockExists(lock)
        sendLfs(exchange, { lock: toReply(lock) }, 201)
      },
    },
    {
      ...common,
      method: 'GET',
      path: '/repos/:repository/info/lfs/locks',
      operationId: 'listLfsLocks',
      summary: 'List locks of files',
      description:
        'Oldest first, at most `limit` (100) at a time; `next_cursor` of a response is the `cursor` of the next page.',
      permissionFor: () => undefined,
      maxBytes: 0,
      problems: ['repository_not_found', 'body_too_large', 'lfs_request_invalid'],
      parameters: listParameters,
      optionalParameters: listParameters,
      async serve(exchange) {
        const repository = await findAny(exchange)
        await refuseBody(exchange, settings)
        // A client sends empty parameters for none.
        const sent = (name: string) => exchange.query.get(name) || undefined
        const [path, id, cursor, limit] = ['path', 'id', 'cursor', 'limit'].map(sent)
        if (path?.includes('\0') || (id !== undefined && !isId(id)))
          return sendLfs(exchange, { locks: [] })
        const wanted = { cursor, limit: limit === undefined ? undefined : Number(limit) }
        const { page, ...rest } = await listPage(repository, { path, id }, wanted)
        sendLfs(exchange, { locks: page.map(toReply), ...rest })
      },
    },
    {
      ...common,
      method: 'POST',
      path: '/repos/:repository/info/lfs/locks/verify',
      operationId: 'verifyLfsLocks',
      summary: 'List locks before a push',
      description: "The same as the list, divided into the caller's own locks and others.",
      permissionFor: () => 'repo:write',
      problems: ['repository_not_found', 'body_too_large', 'lfs_request_invalid'],
      async serve(exchange) {
        const { cursor, limit } = Object(await readJson(exchange, settings))
        // git-lfs sends 0 for no limit.
        const wanted = { cursor: cursor || undefined, limit: limit || undefined }
        const { page, ...rest } = await listPage(foundRepository(exchange), {}, wanted)
        const isOwn = toIsOwn(exchange.principal)
        const ours = page.filter(isOwn).map(toReply)
        const theirs = page.filter((lock) => !isOwn(lock)).map(toReply)
        sendLfs(exchange, { ours, theirs, ...rest })
      },
    },
    {
      ...common,
      method: 'POST',
      path: '/repos/:repository/info/lfs/locks/:id/unlock',
      operationId: 'deleteLfsLock',
      summary: 'Unlock a file',
      description:
        "Only the lock's owner unlocks it, or with `force` a user with the role `maintain` or more.",
      permissionFor: () => 'repo:write',
      problems: [
        'repository_not_found',
        'body_too_large',
        'lfs_request_invalid',
        'lfs_lock_not_found',
        'token_limited',
        'lfs_lock_owned',
      ],
      async serve(exchange) {
        requireAllRefs(exchange.principal)
        const { force = false } = Object(await readJson(exchange, settings))
        if (typeof force !== 'boolean')
          throw lfsRequestInvalid('`force` must be `true` or `false`.')
        const wanted = { id: exchange.params.id ?? '', force }
        const lock = await lfsLocks.remove(exchange.principal, foundRepository(exchange), wanted)
        sendLfs(exchange, { lock: toReply(lock) })
      },
    },
  ]
}

function toReply({ id, path, username, lockedAt }: LfsLock) {
  return { id, path, locked_at: toLfsTime(lockedAt), owner: { name: username } }
}

function lockExists(lock: LfsLock): Problem {
  const detail = `"${printable(lock.path)}" is locked by ${lock.username}.`
  return new Problem('lfs_lock_exists', detail, { members: { lock: toReply(lock) } })
}

function toIsOwn(caller: Principal) {
  const owner = ownerOf(caller)
  return ({ username }: LfsLock) => username === owner
}

type WantedPage = { cursor: unknown; limit: unknown }

function toPage({ cursor = '', limit = 100 }: WantedPage): { after: string; limit: number } {
  if (typeof limit !== 'number' || !Number.isSafeInteger(limit) || limit < 1)
    throw lfsRequestInvalid('`limit` must be a whole number of at least 1.')
  if (typeof cursor !== 'string' || (cursor !== '' && !isId(cursor)))
    throw lfsRequestInvalid('`cursor` must be the `next_cursor` of another response.')
  return { after: cursor, limit: Math.min(limit, pageMax) }
}

/** Reads the path of a file as Git stores it. Throws `lfs_request_invalid`. */
function toPath(body: unknown): string {
  const { path } = Object(body)
  const isPath =
    typeof path === 'string' &&
    path.isWellFormed() &&
    !path.includes('\0') &&
    Buffer.byteLength(path) <= pathMaxBytes &&
    path.split('/').every((name) => !['', '.', '..'].includes(name))
  if (isPath) return path
  const form = `from the root of the repository, without "." and "..", of at most ${pathMaxBytes} bytes`
  throw lfsRequestInvalid(`\`path\` must be the path of a file ${form}.`)
}
