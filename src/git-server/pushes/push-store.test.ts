import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { dayMs } from '#base/clock.ts'
import { newId } from '#base/ids.ts'
import { createLog } from '#base/log.ts'
import type { Database } from '#database/database.ts'
import { createGit } from '#git/process/git-process.ts'
import type { PushedUpdate } from '#git/refs/refs.ts'
import { markDeleted, markRestored } from '#repositories/deleted-repository-store.ts'
import { createDirectories } from '#repositories/directories/directories.ts'
import { createRepositoryHolds } from '#repositories/repository-holds.ts'
import { insertRepository } from '#repositories/repository-store.ts'
import { onEachDatabase } from '../../../test/support/databases.ts'
import { createProject, git as runGit, temporaryFolder } from '../../../test/support/git.ts'
import { gitLimits } from '../../../test/support/git-limits.ts'
import { toPushRow } from '../../../test/support/push-rows.ts'
import { createPushJournal } from './push-journal.ts'
import {
  findPushes,
  insertPush,
  listPushSizes,
  listUnfinishedPushes,
  markFinished,
} from './push-store.ts'
import { createRetainedCommits } from './retained-commits.ts'

const start = 1_795_184_328_814
const none = '0'.repeat(40)
const log = createLog({ level: 'silent', output: process.stderr })

onEachDatabase((fresh) => {
  test('a push to a deleted repository is not recorded', async () => {
    await using database = await fresh()
    await using site = await createSite(await database.open())
    const { db, id } = site
    assert.equal(await markDeleted(db, id, start), true)
    await assert.rejects(insert(db, id, [], start), { code: 'repository_not_found' })
    assert.deepEqual(await listUnfinishedPushes(db, id), [])
    await markRestored(db, { id, namespaceId: null }, { name: 'site', namespaceId: null })
    await insert(db, id, [], start)
    assert.equal((await listUnfinishedPushes(db, id)).length, 1)
  })

  test('retained commits expire, and so do hidden refs without a push', async () => {
    await using database = await fresh()
    await using site = await createSite(await database.open())
    const { db, clock, retainedCommits, journal, path } = site
    const overwritten = update('refs/heads/x', { before: site.first, after: site.second })
    const deleted = update('refs/heads/y', { before: site.second, after: none })
    const early = await site.push([{ ...overwritten, forced: true }])
    clock.time += 10 * dayMs
    const late = await site.push([deleted, { ...overwritten, forced: true }])
    const unfinished = await insert(db, site.id, [deleted], clock.time)
    await retainedCommits.retain(unfinished, [deleted])
    const stray = `refs/svc/kept/${newId()}/${site.first}`
    await runGit(path, ['update-ref', stray, site.first])
    const keptOf = (id: string, ...values: string[]) =>
      values.map((value) => `refs/svc/kept/${id}/${value}`)
    const lasting = [
      ...keptOf(late, site.first, site.second),
      ...keptOf(unfinished.id, site.second),
    ]
    await retainedCommits.expire()
    assert.deepEqual(await site.refs(), [...keptOf(early, site.first), stray, ...lasting].sort())

    clock.time = start + 30 * dayMs
    await retainedCommits.expire()
    await retainedCommits.expire()
    assert.deepEqual(await site.refs(), lasting.sort())
    assert.equal((await findPushes(db, site.id, [early]))[0]?.keptUntil, null)
    assert.equal((await findPushes(db, site.id, [late]))[0]?.keptUntil, start + 40 * dayMs)

    // The journal forgets neither what keeps something nor what has not come to its end.
    clock.time = start + 39 * dayMs
    await journal.prune()
    const ids = async () =>
      (await listPushSizes(db, site.id, { before: '', limit: 9 })).map(({ id }) => id)
    assert.deepEqual(await ids(), [late])
    clock.time = start + 41 * dayMs
    await journal.prune()
    assert.deepEqual(await ids(), [late])
    await retainedCommits.expire()
    await journal.prune()
    assert.deepEqual(await ids(), [])
    assert.equal((await listUnfinishedPushes(db, site.id)).length, 1)
    assert.deepEqual(await site.refs(), keptOf(unfinished.id, site.second))
  })

  test('a missing object does not prevent the retention of others', async () => {
    await using database = await fresh()
    await using site = await createSite(await database.open())
    const gone = '1'.repeat(40)
    const id = await site.push([
      update('refs/heads/x', { before: gone, after: none }),
      update('refs/heads/y', { before: site.first, after: none }),
    ])
    assert.deepEqual(await site.refs(), [`refs/svc/kept/${id}/${site.first}`])
  })

  test('a ref is found by its whole name, with any characters', async () => {
    await using database = await fresh()
    await using site = await createSite(await database.open())
    const names = ['x', 'X', 'x%', 'x_', 'xé', 'x"', `x","ref":"refs/heads/x`]
    const made = new Map<string, string>()
    for (const name of names) {
      const updates = [update(`refs/heads/${name}`, { before: none, after: site.first })]
      made.set(name, await site.push(updates))
    }
    for (const [name, id] of made) {
      const page = { before: '', limit: 9, ref: `refs/heads/${name}` }
      const found = await listPushSizes(site.db, site.id, page)
      assert.deepEqual(
        found.map((one) => one.id),
        [id],
        name,
      )
    }
  })
})

type Values = { before: string; after: string }

function update(ref: string, values: Values): PushedUpdate {
  return { ref, ...values, forced: false }
}

async function insert(db: Database, repositoryId: string, updates: PushedUpdate[], now: number) {
  const push = toPushRow({
    id: newId(),
    repositoryId,
    updates: JSON.stringify(updates),
    judgedAt: now,
  })
  await insertPush(db, push)
  return push
}

/** A repository with two commits, and a clock that a test moves. */
async function createSite(db: Database) {
  await using stack = new AsyncDisposableStack()
  const folder = stack.use(await temporaryFolder())
  const project = stack.use(await createProject())
  const dataDir = join(folder.path, 'data')
  const git = createGit({ owner: dataDir, path: process.env.PATH ?? '', settings: gitLimits })
  const directories = createDirectories({ dataDir, git, faultPoint: () => {} })
  await directories.prepare(async () => {})
  const id = newId()
  await directories.create(id, 'sha1')
  await insertRepository(db, {
    id,
    name: 'site',
    nameKey: 'site',
    ownerTokenId: 'token',
    ownerUsername: 'ada',
    createdAt: start,
    state: 'ready',
  })
  const path = directories.pathOf(id)
  const first = await project.git('rev-parse', 'main')
  const second = await project.commit('b.txt')
  await project.git('push', '--quiet', path, 'main')
  const clock = { time: start, now: () => clock.time }
  const repositoryHolds = createRepositoryHolds({ directories, log, startedAt: start })
  const settings = { undoDays: 30, eventsKeptDays: 20 }
  const retainedCommits = createRetainedCommits({
    db,
    git,
    directories,
    repositoryHolds,
    settings,
    clock,
    log,
  })
  const held = stack.move()

  return {
    ...{ db, id, path, first, second, clock, retainedCommits },
    journal: createPushJournal({ db, settings, clock }),

    /** Records a finalized push; returns its id. */
    async push(updates: PushedUpdate[]): Promise<string> {
      const push = await insert(db, id, updates, clock.time)
      const keptUntil = await retainedCommits.retain(push, updates)
      await markFinished(db, push.id, { updates, keptUntil, now: clock.time })
      return push.id
    },

    /** The hidden refs. */
    async refs(): Promise<string[]> {
      const { stdout } = await runGit(path, ['for-each-ref', '--format=%(refname)', 'refs/svc'])
      return stdout.split('\n').filter((line) => line !== '')
    },

    [Symbol.asyncDispose]: () => held.disposeAsync(),
  }
}
