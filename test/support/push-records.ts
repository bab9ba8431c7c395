import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { PushedUpdate, RefUpdate } from '../../src/git/refs/refs.ts'

export type PushEvent = PushedUpdate & { pushId: string; seq: number; repositoryId: string }

/** Reads the pushes in the database of a data directory, beside the server. */
export function openPushRecords(dataDir: string) {
  const database = new DatabaseSync(join(dataDir, 'svc.db'), { readOnly: true, timeout: 5000 })
  const unfinished = database.prepare(
    'select repository_id as repositoryId, updates from pushes where finished_at is null',
  )
  const later = database.prepare(
    'select seq, kind, repository_id as repositoryId, data from events where seq > ? order by seq',
  )

  function listUnfinished() {
    return unfinished.all().map(({ repositoryId, updates }) => ({
      repositoryId: String(repositoryId),
      updates: JSON.parse(String(updates)) as RefUpdate[],
    }))
  }

  return {
    /** Pushes that were judged and are not finished. */
    unfinished: listUnfinished,

    /** Whether a push that is not finished has already moved a ref. */
    hasMovedRefs(): boolean {
      return listUnfinished().some(({ repositoryId, updates }) =>
        updates.some(({ ref, after }) => {
          const folder = join(
            dataDir,
            'repositories',
            repositoryId.slice(-2),
            `${repositoryId}.git`,
          )
          return readText(join(folder, ref)) === `${after}\n`
        }),
      )
    },

    /** The events of pushes after a number, the ids of what was imported, and all numbers after it. */
    eventsAfter(seq: number): { numbers: number[]; pushes: PushEvent[]; imported: Set<string> } {
      const rows = later.all(seq)
      const pushes = rows
        .filter(({ kind }) => kind === 'push')
        .map((row) => ({
          ...(JSON.parse(String(row.data)) as PushedUpdate & { pushId: string }),
          seq: Number(row.seq),
          repositoryId: String(row.repositoryId),
        }))
      const imports = rows.filter(({ kind }) => kind === 'repository.imported')
      const imported = new Set(imports.map(({ repositoryId }) => String(repositoryId)))
      return { numbers: rows.map((row) => Number(row.seq)), pushes, imported }
    },

    [Symbol.dispose]: () => database.close(),
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
