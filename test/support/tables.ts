import { openRows, type Row } from './rows.ts'

type Event = { seq: number; kind: string; repositoryId: string | null; data: unknown }

/** The tables of a data directory's database, read beside the server or after its end. */
export function openTables(dataDir: string) {
  const { all, tables, ...rows } = openRows(dataDir)
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
    text: (): string => JSON.stringify(tables().map((name) => all(`select * from ${name}`))),

    [Symbol.dispose]: () => rows[Symbol.dispose](),
  }
}
