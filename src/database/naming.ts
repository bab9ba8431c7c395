import { CamelCasePlugin } from 'kysely'

/** Converts snake_case columns to camelCase properties. */
export class Naming extends CamelCasePlugin {
  /** Public, for rows that are read without Kysely. */
  override mapRow(row: Record<string, unknown>): Record<string, unknown> {
    return super.mapRow(row)
  }
}
