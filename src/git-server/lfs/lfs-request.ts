import { Problem } from '#base/problem.ts'
import type { LfsPointer } from '#git/objects/lfs-pointers.ts'
import type { LfsOperation } from './lfs-operations.ts'

/** A pointer of a client, or what it sent instead and why that is none. */
export type SentPointer = LfsPointer | { sent: { oid: unknown; size: unknown }; fault: string }

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
  const pointer = toSentPointer(body)
  if ('fault' in pointer) throw lfsRequestInvalid(pointer.fault)
  return pointer
}

/** Throws `lfs_object_not_found` for the last segment of an address that is not an id. */
export function assertOid(oid: string): string {
  if (oidForm.test(oid)) return oid
  throw new Problem('lfs_object_not_found', `The id of an object is ${oidInWords}.`)
}

const oidInWords = 'a SHA-256: 64 hex digits in lower case'

function toSentPointer(value: unknown): SentPointer {
  const { oid, size } = Object(value)
  const sent = { oid, size }
  if (typeof oid !== 'string' || !oidForm.test(oid))
    return { sent, fault: `\`oid\` must be ${oidInWords}.` }
  if (!isSize(size)) return { sent, fault: '`size` must be a whole number of bytes, at least 0.' }
  return { oid, size }
}

function isSize(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

export function lfsRequestInvalid(detail: string): Problem {
  return new Problem('lfs_request_invalid', detail)
}
