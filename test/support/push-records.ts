import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { PushedUpdate, RefUpdate } from '#git/refs/refs.ts'
import { repositoriesFolder } from './kind-of-store.ts'
import { openRows } from './rows.ts'

export type PushEvent = PushedUpdate & { pushId: string; seq: number; repositoryId: string }

/** Reads the pushes in the database of a data directory, beside the server. */
export function openPushRecords(dataDir: string) {
  const rows = openRows(dataDir)
  // Those of deleted repositories are finalized when these are restored.
  const unfinished = `select repository_id, updates from pushes where finished_at is null
    and repository_id in (select id from repositories where deleted_at is null)`
  const later = 'select seq, kind, repository_id, data from events where seq > ? order by seq'

  function listUnfinished() {
    return rows.all(unfinished).map(({ repository_id, updates }) => ({
      repositoryId: String(repository_id),
      updates: JSON.parse(String(updates)) as RefUpdate[],
    }))
  }

  return {
    /** Pushes that were authorized and are not finished. */
    unfinished: listUnfinished,

    /** Whether a push that is not finished has already moved a ref. */
    hasMovedRefs(): boolean {
      return listUnfinished().some(({ repositoryId, updates }) =>
        updates.some(({ ref, after }) => {
          const folder = join(
            dataDir,
            repositoriesFolder,
            repositoryId.slice(-2),
            `${repositoryId}.git`,
          )
          return readText(join(folder, ref)) === `${after}\n`
        }),
      )
    },

    /** The events of pushes after a number, the ids of what was imported, and all numbers after it. */
    eventsAfter(seq: number): { numbers: number[]; pushes: PushEvent[]; imported: Set<string> } {
      const found = rows.all(later, seq)
      const pushes = found
        .filter(({ kind }) => kind === 'push')
        .map((row) => ({
          ...(JSON.parse(String(row.data)) as PushedUpdate & { pushId: string }),
          seq: Number(row.seq),
          repositoryId: String(row.repository_id),
        }))
      const imports = found.filter(({ kind }) => kind === 'repository.imported')
      const imported = new Set(imports.map(({ repository_id }) => String(repository_id)))
      return { numbers: found.map((row) => Number(row.seq)), pushes, imported }
    },

    [Symbol.dispose]: () => rows[Symbol.dispose](),
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
