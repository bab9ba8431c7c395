import { CamelCasePlugin } from 'kysely'

/** Columns are in snake case, and properties of rows in camel case. */
export class Naming extends CamelCasePlugin {
  /** A row as its properties are named. */
  override mapRow(row: Record<string, unknown>): Record<string, unknown> {
    return super.mapRow(row)
  }
}
