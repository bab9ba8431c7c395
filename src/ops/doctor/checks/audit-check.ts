import { hashEntry, noHash } from '#events/audit/entry-hash.ts'
import type { Check } from '../check.ts'
import type { DoctorContext } from '../context.ts'
import { listAuditAfter, readAuditNumber, readVersion } from '../doctor-store.ts'
import { type Finding, fault, ok } from '../finding.ts'

/** The first schema version with an audit log. */
const auditVersion = 22

/** Checks that no entry of the audit log was changed or removed. */
export const auditCheck: Check = {
  id: 'audit',
  title: 'audit log',
  isLong: true,
  async run(context) {
    const version = (await context.read(readVersion)) ?? 0
    if (version < auditVersion) return ok('There is none yet.')
    const first = await readChain(context)
    // A running server may have pruned entries meanwhile.
    const isSure = first.level === 'ok' || !context.isServed()
    return [isSure ? first : await readChain(context)]
  },
}

type Pruned = { upTo: number; hash: string }

type Oldest = { seq: number; isAfter: (hash: string) => boolean }

async function readChain(context: DoctorContext): Promise<Finding> {
  // Before the entries are read: a running server adds some.
  const expected = await context.read(readAuditNumber)
  let previous: { seq: number; hash: string } | undefined
  let oldest: Oldest | undefined
  let pruned: Pruned = { upTo: 0, hash: noHash }
  let count = 0
  for (let isEnd = false; !isEnd; ) {
    const after = previous?.seq ?? 0
    const rows = await context.read((db) => listAuditAfter(db, after))
    isEnd = rows.length === 0
    for (const { hash, ...row } of rows) {
      oldest ??= { seq: row.seq, isAfter: (before) => hashEntry(before, row) === hash }
      if (previous && row.seq !== previous.seq + 1) return removed(previous.seq + 1, row.seq - 1)
      if (previous && hashEntry(previous.hash, row) !== hash)
        return altered(`Entry ${row.seq}, or the hash of the one before it, was changed.`)
      if (row.action === 'audit.pruned') {
        const parsed = parsePruned(row.data)
        if (!parsed) return altered(`Entry ${row.seq} was changed.`)
        pruned = parsed
      }
      previous = { seq: row.seq, hash }
      count++
    }
    context.onProgress(isEnd ? undefined : `audit log: ${count} entries`)
  }
  const last = previous?.seq ?? 0
  if (last < expected) return removed(last + 1, expected)
  const recorded = await context.read(readAuditNumber)
  if (last > recorded) return altered(`The entries after ${recorded} were not added by svc.`)
  // The oldest entry must follow the last pruned entry.
  if (oldest && oldest.seq !== pruned.upTo + 1) return removed(pruned.upTo + 1, oldest.seq - 1)
  if (oldest && !oldest.isAfter(pruned.hash))
    return altered(`Entry ${oldest.seq}, the oldest, was changed.`)
  const head = previous && ` The hash of the last one, ${previous.seq}, is ${previous.hash}.`
  return ok(`${count} entries, none changed or removed.${head ?? ''}`)
}

/** Parses the data of `audit.pruned`; undefined when svc did not write it. */
function parsePruned(data: string): Pruned | undefined {
  try {
    const { upTo, hash } = JSON.parse(data)
    return Number.isInteger(upTo) && typeof hash === 'string' ? { upTo, hash } : undefined
  } catch {
    return undefined
  }
}

function removed(first: number, last: number): Finding {
  return altered(
    first === last ? `Entry ${first} was removed.` : `Entries ${first} to ${last} were removed.`,
  )
}

function altered(found: string): Finding {
  return fault(
    found,
    'Someone with access to the database did this: find out who, and compare with a backup from before.',
  )
}
