/** The few types that differ between SQLite and PostgreSQL. */
export type ColumnTypes = { milliseconds: string; sequence: string; bytes: string }

/** Statements, run in order in one transaction. Once released a migration never changes; the next one mends it. */
export type Migration = (types: ColumnTypes) => string[]
