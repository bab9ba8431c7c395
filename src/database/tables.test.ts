import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { onEachDatabase } from '../../test/support/databases.ts'
import { insertRows, listTables, type Row, readRows } from './rows.ts'
import { tables } from './tables.ts'

onEachDatabase((fresh, engine) => {
  test('the list of tables has every table of the database with its primary key', async () => {
    await using database = await fresh()
    const db = await database.open()
    const real = (await listTables(db, engine)).filter((name) => name !== 'schema_version')
    assert.deepEqual(tables.map(({ name }) => name).sort(), real.sort())
    for (const { name, key } of tables) {
      const { rows } = await (engine === 'sqlite'
        ? sql<{
            name: string
          }>`select name from pragma_table_info(${name}) where pk > 0 order by pk`
        : sql<{ name: string }>`select a.attname as name from pg_index i
            join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
            where i.indrelid = ${name}::regclass and i.indisprimary
            order by array_position(i.indkey, a.attnum)`
      ).execute(db)
      assert.deepEqual(
        rows.map((row) => row.name),
        key,
        name,
      )
    }
  })

  test('tables are listed after those that they reference', async () => {
    await using database = await fresh()
    const db = await database.open()
    const place = new Map(tables.map(({ name }, index) => [name, index]))
    const { rows } = await (engine === 'sqlite'
      ? sql<{ child: string; parent: string }>`select m.name as child, f."table" as parent
          from sqlite_schema m join pragma_foreign_key_list(m.name) f where m.type = 'table'`
      : sql<{ child: string; parent: string }>`select conrelid::regclass::text as child,
          confrelid::regclass::text as parent from pg_constraint where contype = 'f'`
    ).execute(db)
    assert.ok(rows.length > 0)
    for (const { child, parent } of rows) {
      assert.ok((place.get(parent) ?? 0) < (place.get(child) ?? 0), `${child} refers to ${parent}`)
    }
  })

  test('rows are read in the order of their key, each once', async () => {
    await using database = await fresh()
    const db = await database.open()
    const rows: Row[] = []
    for (let number = 0; number < 1234; number++) {
      const [owner, branch] = [Math.floor(number / 300), `branch-${number}`]
      rows.push({ scope_id: `r${owner}`, branch, created_at: number })
    }
    const repositories = [0, 1, 2, 3, 4].map((number) => ({
      id: `r${number}`,
      name: `${number}`,
      name_key: `${number}`,
      owner_token_id: '',
      owner_username: '',
      created_at: 1,
    }))
    await insertRows(db, 'repositories', repositories)
    await insertRows(db, 'protections', rows)
    const read: Row[] = []
    const table = tables.find(({ name }) => name === 'protections')
    assert.ok(table)
    for await (const some of readRows(db, table)) read.push(...some)
    const keyOf = (row: Row) => `${row.scope_id} ${row.branch}`
    assert.deepEqual(read.map(keyOf).sort(), rows.map(keyOf).sort())
  })
})
