import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { newId } from '#base/ids.ts'
import type { Database } from '#database/database.ts'
import type { PushRow } from '#database/schema.ts'
import { insertRepository } from '#repositories/repository-store.ts'
import { onEachDatabase } from '../../../test/support/databases.ts'
import { git, temporaryFolder } from '../../../test/support/git.ts'
import { toPushRow } from '../../../test/support/push-rows.ts'
import { findApplied, type IntendedUpdate } from './applied-updates.ts'
import { insertPush } from './push-store.ts'

const [none, a, b, c] = ['0', 'a', 'b', 'c'].map((digit) => digit.repeat(40)) as [
  string,
  string,
  string,
  string,
]
const main = 'refs/heads/main'
const alias = 'refs/heads/alias'
const repositoryId = newId()
const judgedAt = 1000

type Other = { updates: IntendedUpdate[]; finishedAt: number | null; judgedAt?: number }

const update = (before: string, after: string, ref = main): IntendedUpdate => ({
  ref,
  before,
  after,
})
const stale = (before: string, after: string): IntendedUpdate => ({
  ...update(before, after),
  isStale: true,
})
const finished = (...updates: IntendedUpdate[]): Other => ({ updates, finishedAt: judgedAt + 1 })
const unfinished = (...updates: IntendedUpdate[]): Other => ({ updates, finishedAt: null })
const past = (...updates: IntendedUpdate[]): Other => ({
  updates,
  judgedAt: judgedAt - 9,
  finishedAt: judgedAt - 1,
})

/** What the branch is now, what a push wanted, what others did, and whether the push came to pass. */
const cases: [string, string, IntendedUpdate, Other[], boolean][] = [
  ['the value is there', b, update(a, b), [], true],
  ['it is not there', a, update(a, b), [], false],
  ['another push began with it', c, update(a, b), [unfinished(update(b, c))], true],
  [
    'another began with it by another name',
    c,
    update(a, b),
    [unfinished(update(b, c, alias))],
    true,
  ],
  ['the same is recorded', b, update(a, b), [finished(update(a, b))], false],
  [
    'the same was recorded by another name',
    b,
    update(a, b),
    [finished(update(a, b, alias))],
    false,
  ],
  ['the same was recorded before it was judged', b, update(a, b), [past(update(a, b))], true],
  ['the same may be recorded later', b, update(a, b), [unfinished(update(a, b))], true],
  [
    'the same of another ref is recorded',
    b,
    update(a, b),
    [finished(update(a, b, 'refs/x'))],
    true,
  ],
  ['another way to it is recorded', b, update(a, b), [finished(update(c, b))], true],
  [
    'the same is recorded, and it may have come back',
    b,
    update(a, b),
    [finished(update(a, b)), unfinished(update(c, a))],
    true,
  ],
  [
    'the same is recorded, and it has come back by another name',
    b,
    update(a, b),
    [finished(update(a, b)), finished(update(b, a, alias))],
    true,
  ],
  ['it went by what the ref was not', b, stale(a, b), [], false],
  ['it went by what the ref has become', b, stale(a, b), [unfinished(update(c, a))], true],
  ['the same deletion is recorded', none, update(a, none), [finished(update(a, none))], false],
  [
    'the same deletion is recorded, and something was made',
    none,
    update(a, none),
    [finished(update(a, none)), finished(update(none, b))],
    true,
  ],
  ['git deletes what it does not have', none, stale(a, none), [], true],
]

onEachDatabase((fresh) => {
  for (const [what, value, wanted, others, expected] of cases) {
    test(`a push ${expected ? 'counts' : 'counts not'} when ${what}`, async () => {
      await using database = await fresh()
      const db = await database.open()
      await using folder = await repositoryWith(value)
      await insertRepository(db, {
        id: repositoryId,
        name: 'site',
        nameKey: 'site',
        ownerTokenId: 'token',
        ownerUsername: 'ada',
        createdAt: 1,
        state: 'ready',
      })
      await record(db, others)
      const push = row({ updates: [wanted], finishedAt: null, judgedAt }, newId())
      await insertPush(db, push)
      const applied = await findApplied(db, folder.path, push)
      const { isStale: _, ...plain } = wanted
      assert.deepEqual(applied, expected ? [plain] : [])
    })
  }
})

// They were authorized before the push, so only the times of their ends decide.
async function record(db: Database, others: Other[]): Promise<void> {
  for (const other of others) await insertPush(db, row(other, newId()))
}

function row(push: Other, id: string): PushRow {
  return toPushRow({
    id,
    repositoryId,
    updates: JSON.stringify(push.updates),
    judgedAt: push.judgedAt ?? judgedAt - 1,
    finishedAt: push.finishedAt,
  })
}

/** A repository whose branch has a value, by two names. */
async function repositoryWith(value: string) {
  const folder = await temporaryFolder()
  await git(folder.path, ['init', '--quiet', '--bare', '--initial-branch=main'])
  if (value !== none) await writeFile(join(folder.path, main), `${value}\n`)
  await writeFile(join(folder.path, alias), `ref: ${main}\n`)
  return folder
}
