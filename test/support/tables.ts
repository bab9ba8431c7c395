import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

type Event = { seq: number; kind: string; repositoryId: string | null; data: unknown }
type Row = Record<string, string | number | null>

/** The tables of a data directory's SQLite database, read beside the server or after its end. */
export function openTables(dataDir: string) {
  const database = new DatabaseSync(join(dataDir, 'svc.db'), { readOnly: true, timeout: 5000 })
  // The columns are of text and numbers alone.
  const all = (query: string, ...values: string[]) =>
    database.prepare(query).all(...values) as Row[]

  return {
    /** The events about a repository, oldest first. */
    events: (repositoryId: string): Event[] =>
      all('select * from events where repository_id = ? order by seq', repositoryId).map(
        ({ seq, kind, data }) => ({
          seq: Number(seq),
          kind: String(kind),
          repositoryId,
          data: JSON.parse(String(data)),
        }),
      ),

    /** All rows of a table. */
    rows: (table: string): Row[] => all(`select * from ${table}`),

    /** All that is kept, as text. */
    text(): string {
      const tables = all(`select name from sqlite_schema where type = 'table'`)
      return JSON.stringify(tables.map(({ name }) => all(`select * from ${name}`)))
    },

    [Symbol.dispose]: () => database.close(),
  }
}
