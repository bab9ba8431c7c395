import { hash } from 'node:crypto'
import type { AuditRow } from '#database/schema.ts'

/** The hash before the first entry. */
export const noHash = '0'.repeat(64)

/**
 * Returns the hash of an entry, in hex: SHA-256 of the JSON of an array with the hash of the entry before it and the
 * fields of the entry, in this order.
 */
export function hashEntry(previous: string, entry: Omit<AuditRow, 'hash'>): string {
  const { seq, createdAt, action, actorId, actorUsername, via, address, repositoryId, data } = entry
  const fields = [
    previous,
    seq,
    createdAt,
    action,
    actorId,
    actorUsername,
    via,
    address,
    repositoryId,
    data,
  ]
  return hash('sha256', JSON.stringify(fields))
}
