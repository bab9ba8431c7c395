import assert from 'node:assert/strict'
import { test } from 'node:test'
import { migrations, oldestServerOf } from './migrations.ts'

const types = { milliseconds: 'bigint', sequence: 'bigint', bytes: 'bytea', ordinal: 'text' }

test('a migration that only adds has no statement that fails a server which does not know it', () => {
  for (const migration of migrations) {
    if (oldestServerOf([migration]) > 0) continue
    const statements = migration(types)
    const created = statements.flatMap((one) => /^create table (\w+)/.exec(one)?.[1] ?? [])
    for (const statement of statements) {
      const [, index] = /^create unique index \w+ on (\w+)/.exec(statement) ?? []
      const [, altered, column] = /^alter table (\w+) add column (.+)$/.exec(statement) ?? []
      const isAddition =
        /^create table |^create index |^insert into marks /.test(statement) ||
        (index !== undefined && created.includes(index)) ||
        (altered !== undefined && (!/not null/.test(column ?? '') || /default/.test(column ?? '')))
      assert.ok(isAddition, `${migration.name} changes what is there: ${statement}`)
    }
  }
})

test('the oldest server that can run knows the last migration that changes something', () => {
  const isChange = (index: number) => oldestServerOf(migrations.slice(index, index + 1)) === 1
  for (let length = 0; length <= migrations.length; length++) {
    const oldest = oldestServerOf(migrations.slice(0, length))
    for (let index = oldest; index < length; index++) assert.ok(!isChange(index))
    if (oldest > 0) assert.ok(isChange(oldest - 1))
  }
})
