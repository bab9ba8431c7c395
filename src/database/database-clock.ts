import { sql } from 'kysely'

/** The time of PostgreSQL in milliseconds, for what several servers decide by age: their own clocks may differ. */
export const databaseNow = sql<number>`(extract(epoch from now()) * 1000)::bigint`
