import { Problem } from '#base/problem.ts'
import type { LfsPointer } from '#git/objects/lfs-pointers.ts'
import type { LfsOperation } from './lfs-operations.ts'

/** A pointer as a client sent it, or why it is none. */
export type SentPointer = { oid: unknown; size: unknown; fault: string | undefined }

export type BatchRequest = {
  operation: LfsOperation
  objects: SentPointer[]
}

const maxObjects = 1000
const oidForm = /^[0-9a-f]{64}$/

/** Reads the body of a batch request. Throws `lfs_request_invalid`, `lfs_hash_unsupported` and `too_many_lfs_objects`. */
export function toBatchRequest(body: unknown): BatchRequest {
  const { operation, objects, hash_algo: hashAlgorithm } = Object(body)
  if (operation !== 'upload' && operation !== 'download')
    throw lfsRequestInvalid('`operation` must be `upload` or `download`.')
  if (hashAlgorithm !== undefined && hashAlgorithm !== null && hashAlgorithm !== 'sha256') {
    const detail = '`hash_algo` must be `sha256`, by which objects are identified.'
    throw new Problem('lfs_hash_unsupported', detail)
  }
  if (!Array.isArray(objects)) throw lfsRequestInvalid('`objects` must be an array.')
  if (objects.length > maxObjects)
    throw new Problem('too_many_lfs_objects', `A request may have at most ${maxObjects} objects.`)
  return { operation, objects: objects.map(toSentPointer) }
}

/** Reads the body of a verification. Throws `lfs_request_invalid`. */
export function toPointer(body: unknown): LfsPointer {
  const { oid, size, fault } = toSentPointer(body)
  if (fault !== undefined) throw lfsRequestInvalid(fault)
  return { oid: String(oid), size: Number(size) }
}

/** Throws `lfs_object_not_found` for the last segment of an address that is not an id. */
export function assertOid(oid: string): string {
  if (oidForm.test(oid)) return oid
  const detail = 'The id of an object is a SHA-256: 64 hex digits in lower case.'
  throw new Problem('lfs_object_not_found', detail)
}

const oidFault = '`oid` must be a SHA-256: 64 hex digits in lower case.'

function toSentPointer(value: unknown): SentPointer {
  const { oid, size } = Object(value)
  const hasOid = typeof oid === 'string' && oidForm.test(oid)
  const fault = hasOid
    ? isSize(size)
      ? undefined
      : '`size` must be a whole number of bytes, at least 0.'
    : oidFault
  return { oid, size, fault }
}

function isSize(value: unknown): boolean {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

export function lfsRequestInvalid(detail: string): Problem {
  return new Problem('lfs_request_invalid', detail)
}
