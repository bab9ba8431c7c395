import { Problem } from '#base/problem.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { LfsPointer } from '#git/objects/lfs-pointers.ts'
import { type LfsObjects, lfsObjectNotFound } from '#repositories/lfs-objects.ts'
import type { BatchRequest, SentPointer } from './lfs-request.ts'

type Dependencies = {
  lfsObjects: Pick<LfsObjects, 'sizesOf' | 'renewedSizesOf' | 'bytesLeft' | 'direct'>
  settings: Pick<PlainSettings, 'lfsObjectMaxBytes'>
}

/** What links for a client are made of. */
export type LfsLinks = {
  /** The address of the objects of the repository. */
  address: string
  /** The client's own `Authorization`, which transfers need, too; undefined without one. */
  authorization: string | undefined
  /** The seconds after which that expires, or null. */
  expiresIn: number | null
  /** The same for verifying an upload to the bucket. */
  verificationExpiresIn: number | null
  /** Whether the client reaches the bucket of a shared store. */
  isDirect: boolean
}

type Reply =
  | (LfsPointer & { authenticated: true; actions?: Record<string, Action> })
  | { oid: unknown; size: unknown; error: { code: number; message: string } }

type Action = {
  href: string
  header: Record<string, string>
  expires_in?: number
}

/** Links to the bucket by the ids of objects. */
type DirectLinks = ReadonlyMap<string, DirectLink>

type DirectLink = { href: string; headers: Record<string, string>; uploadId?: string }

// Less than the signature is valid, so that a transfer that is queued begins in time.
const directSeconds = 10 * 60

/** Responds to batch requests: https://github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md */
export function createLfsBatch({ lfsObjects, settings }: Dependencies) {
  const { lfsObjectMaxBytes: maxBytes } = settings

  /** Errors by the ids of the objects that exceed a limit of the namespace, in the order of the request. */
  async function findExceeding(
    repositoryId: string,
    pointers: ReadonlyMap<string, number>,
    sizes: ReadonlyMap<string, number>,
  ): Promise<ReadonlyMap<string, string>> {
    const exceeding = new Map<string, string>()
    const left = await lfsObjects.bytesLeft(repositoryId)
    if (!left) return exceeding
    let bytes = 0
    for (const [oid, size] of pointers) {
      if (sizes.has(oid)) continue
      if (bytes + size > left.bytes) exceeding.set(oid, left.problem.message)
      else bytes += size
    }
    return exceeding
  }

  async function directLinks(
    repositoryId: string,
    operation: BatchRequest['operation'],
    pointers: ReadonlyMap<string, number>,
    sizes: ReadonlyMap<string, number>,
    exceeding: ReadonlyMap<string, string>,
  ): Promise<DirectLinks> {
    const { direct } = lfsObjects
    if (!direct) return new Map()
    if (operation === 'download') return direct.linksToDownload(repositoryId, [...sizes.keys()])
    const missing = [...pointers]
      .map(([oid, size]) => ({ oid, size }))
      .filter(({ oid, size }) => !sizes.has(oid) && !exceeding.has(oid) && size <= maxBytes)
    return direct.linksToUpload(repositoryId, missing)
  }

  function toReply(
    operation: BatchRequest['operation'],
    { oid, size }: LfsPointer,
    storedSize: number | undefined,
    {
      links,
      direct,
      exceeding,
    }: { links: LfsLinks; direct: DirectLinks; exceeding: ReadonlyMap<string, string> },
  ): Reply {
    const link = direct.get(oid)
    const toBucket = link && {
      href: link.href,
      header: link.headers,
      expires_in: directSeconds,
    }
    const reply = { oid, size, authenticated: true } as const
    if (storedSize !== undefined && storedSize !== size)
      return toError({ oid, size }, 422, otherSize({ oid, size }, storedSize))
    if (operation === 'download') {
      if (storedSize === undefined)
        return toError({ oid, size }, 404, lfsObjectNotFound(oid).message)
      return { ...reply, actions: { download: toBucket ?? toAction(links, `/${oid}`) } }
    }
    if (storedSize !== undefined) return reply
    if (size > maxBytes)
      return toError({ oid, size }, 422, `An object may have at most ${maxBytes} bytes.`)
    const excess = exceeding.get(oid)
    if (excess !== undefined) return toError({ oid, size }, 507, excess)
    const actions = {
      upload: toBucket ?? toAction(links, `/${oid}`),
      verify: link
        ? toAction(
            { ...links, expiresIn: links.verificationExpiresIn },
            `/verify?upload=${link.uploadId}`,
          )
        : toAction(links, '/verify'),
    }
    return { ...reply, actions }
  }

  return {
    async respond(repositoryId: string, { operation, objects }: BatchRequest, links: LfsLinks) {
      const { pointers, refused } = splitPointers(objects)
      const find = operation === 'upload' ? lfsObjects.renewedSizesOf : lfsObjects.sizesOf
      const sizes = await find(repositoryId, [...pointers.keys()])
      const exceeding =
        operation === 'upload' ? await findExceeding(repositoryId, pointers, sizes) : new Map()
      const direct = links.isDirect
        ? await directLinks(repositoryId, operation, pointers, sizes, exceeding)
        : new Map()
      const replies = [...pointers].map(([oid, size]) =>
        toReply(operation, { oid, size }, sizes.get(oid), { links, direct, exceeding }),
      )
      const objectReplies = [...replies, ...refused]
      return { transfer: 'basic', objects: objectReplies, hash_algo: 'sha256' }
    },

    /** Throws `lfs_object_not_found`, or `lfs_object_invalid` when the object has another size. */
    async verify(
      repositoryId: string,
      { oid, size }: LfsPointer,
      uploadId: string | undefined,
    ): Promise<void> {
      const uploaded =
        uploadId === undefined
          ? undefined
          : await lfsObjects.direct?.complete({ repositoryId, oid, uploadId, size })
      const stored = (await lfsObjects.sizesOf(repositoryId, [oid])).get(oid) ?? uploaded
      if (stored === undefined) throw lfsObjectNotFound(oid)
      if (stored !== size) throw new Problem('lfs_object_invalid', otherSize({ oid, size }, stored))
    },
  }
}

/** Each valid pointer once, and errors for the others. */
function splitPointers(objects: readonly SentPointer[]) {
  const pointers = new Map<string, number>()
  const refused: Reply[] = []
  for (const object of objects) {
    if ('fault' in object) {
      refused.push(toError(object.sent, 422, object.fault))
      continue
    }
    const { oid, size } = object
    const earlier = pointers.get(oid)
    if (earlier === undefined) pointers.set(oid, size)
    else if (earlier !== size)
      refused.push(toError(object, 422, `The request names ${oid} with ${earlier} bytes, too.`))
  }
  return { pointers, refused }
}

function toError(object: { oid: unknown; size: unknown }, code: number, message: string): Reply {
  return { ...object, error: { code, message } }
}

// Relative, since clients compare an absolute time with a clock that may be another.
function toAction({ address, authorization, expiresIn }: LfsLinks, path: string): Action {
  const header = authorization === undefined ? {} : { Authorization: authorization }
  const action = { href: address + path, header }
  return expiresIn === null ? action : { ...action, expires_in: expiresIn }
}

function otherSize({ oid, size }: LfsPointer, stored: number): string {
  return `The object ${oid} has ${stored} bytes and not ${size}.`
}
