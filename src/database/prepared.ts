import type { Compilable, CompiledQuery } from 'kysely'
import type { Db } from './schema.ts'
import { DirectAdapter } from './sqlite.ts'

type Values = Record<string, string | number>

/** Stands in a query for a value that is given with each execution. */
class Blank {
  readonly name: string

  constructor(name: string) {
    this.name = name
  }
}

/**
 * A query for rows that is built and compiled once for each database, which takes longer than to find a row by its
 * key. On SQLite it waits for nobody who waits to write. What `build` is given are no values yet: it may put each of
 * them where a value stands, and look at none.
 */
export function prepared<V extends Values, R>(build: (db: Db, values: V) => Compilable<R>) {
  const queries = new WeakMap<object, CompiledQuery<R>>()
  // Any name is asked for by a `build` that knows the names of V.
  const blanks = new Proxy({}, { get: (_, name) => new Blank(String(name)) }) as V

  function queryFor(db: Db, adapter: object): CompiledQuery<R> {
    const known = queries.get(adapter)
    if (known) return known
    const query = build(db, blanks).compile()
    queries.set(adapter, query)
    return query
  }

  return async (db: Db, values: V): Promise<R[]> => {
    // A database and its transactions have one.
    const { adapter } = db.getExecutor()
    const query = queryFor(db, adapter)
    const parameters = query.parameters.map((parameter) =>
      parameter instanceof Blank ? values[parameter.name] : parameter,
    )
    if (adapter instanceof DirectAdapter && !db.isTransaction) {
      // The rows are those that executeQuery below would find.
      const rows = await adapter.read({ sql: query.sql, parameters })
      if (rows) return rows as R[]
    }
    const { rows } = await db.executeQuery<R>({ ...query, parameters })
    return rows
  }
}
