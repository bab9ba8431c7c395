import type { Principal } from '#access/principal.ts'
import type { Database } from '#database/database.ts'
import type { AuditRow } from '#database/schema.ts'
import type { Actor } from '../events.ts'
import { type AuditFilter, findExtent, listEntries } from './audit-store.ts'

/** A page of entries, newest first: at most `limit` that are older than `before`. */
type AuditPage = { before: number | undefined; limit: number }

/** An entry as the API describes it. */
type AuditEntry = Pick<
  AuditRow,
  'seq' | 'createdAt' | 'action' | 'via' | 'address' | 'repositoryId' | 'hash'
> & { actor: Pick<Actor, 'id' | 'username'>; repoName: string | null; data: object }

export type AuditLog = {
  /**
   * Lists matching entries. One call reads a limited number of entries: `next` is the value of `before` for the next
   * page, undefined when there is none.
   */
  list: (
    principal: Principal,
    filter: AuditFilter,
    page: AuditPage,
  ) => Promise<{ entries: AuditEntry[]; next: number | undefined }>
}

type Dependencies = {
  db: Database
  /** The names of the repositories that a principal can see, by their ids. */
  namesOf: (principal: Principal, ids: string[]) => Promise<ReadonlyMap<string, string>>
}

// A filter that matches few entries must not make one request read the whole log.
const maxRead = 10_000

export function createAuditLog({ db, namesOf }: Dependencies): AuditLog {
  return {
    async list(principal, filter, { before, limit }) {
      const extent = await findExtent(db, filter)
      if (!extent) return { entries: [], next: undefined }
      const last = Math.min(extent.last, (before ?? Number.MAX_SAFE_INTEGER) - 1)
      const first = Math.max(extent.first, last - maxRead + 1)
      if (last < first) return { entries: [], next: undefined }
      const rows = await listEntries(db, { first, last, limit }, filter)
      const ids = rows.flatMap(({ repositoryId }) => repositoryId ?? [])
      const names = await namesOf(principal, [...new Set(ids)])
      // A full page may end before the first entry that may be read.
      const reached = rows.length === limit ? (rows.at(-1)?.seq ?? first) : first
      return {
        entries: rows.map((row) => toEntry(row, names)),
        next: reached > extent.first ? reached : undefined,
      }
    },
  }
}

function toEntry(
  { actorId, actorUsername, data, ...row }: AuditRow,
  names: ReadonlyMap<string, string>,
): AuditEntry {
  const { seq, createdAt, action, via, address, repositoryId, hash } = row
  return {
    seq,
    createdAt,
    action,
    actor: { id: actorId, username: actorUsername },
    via,
    address,
    repositoryId,
    repoName: (repositoryId !== null && names.get(repositoryId)) || null,
    data: JSON.parse(data),
    hash,
  }
}
