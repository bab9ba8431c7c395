/** The few types that differ between SQLite and PostgreSQL. `ordinal` is a text that is compared by its bytes. */
export type ColumnTypes = {
  milliseconds: string
  sequence: string
  bytes: string
  ordinal: string
}

/** Statements, run in order in one transaction. A released migration never changes; fix it with a new one. */
export type Migration = (types: ColumnTypes) => string[]
