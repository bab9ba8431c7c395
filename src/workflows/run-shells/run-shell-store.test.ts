import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createNotifier } from '#base/concurrency/notifier.ts'
import { newId } from '#base/ids.ts'
import { Sensitive } from '#base/sensitive.ts'
import type { Database } from '#database/database.ts'
import type { RunShellRow } from '#database/schema.ts'
import { insertRepository } from '#repositories/repository-store.ts'
import { createVault } from '#secrets/vault/vault.ts'
import { onEachDatabase } from '../../../test/support/databases.ts'
import { insertRun } from '../run-store.ts'
import {
  deleteFailedWorkspaces,
  expireFailedWorkspaces,
  insertFailedWorkspace,
  listFailedWorkspaces,
  listHeld,
  markLost,
  markRemoved,
  touchFailedWorkspaces,
} from './failed-workspace-store.ts'
import {
  deleteEndedShells,
  findOpenShell,
  findShell,
  insertShell,
  takeShell,
  updateShell,
} from './run-shell-store.ts'
import { createShellStreams } from './shell-streams.ts'

const pieceBytes = 64 * 1024
const ring = createVault(new Sensitive([Buffer.alloc(32, 'k')]))
const vault = async () => ring

async function addRun(db: Database): Promise<{ repositoryId: string; runId: string }> {
  const repositoryId = newId()
  const owner = { ownerTokenId: 't', ownerUsername: 'ada' }
  const names = { name: repositoryId, nameKey: repositoryId }
  await insertRepository(db, {
    ...{ id: repositoryId, ...names, ...owner, createdAt: 1, state: 'ready' },
  })
  const runId = newId()
  await insertRun(
    db,
    {
      ...{ id: runId, repositoryId, number: 1, name: 'ci', branch: 'main', ref: 'refs/heads/main' },
      ...{ commitId: 'c', event: 'push', payload: '{}', inputs: '{}', files: '[]' },
      ...{ sources: '{}', labels: '[]', secretNames: null, actorId: 'a', actorUsername: 'ada' },
      ...{ status: 'completed', conclusion: 'failure', createdAt: 1, queuedAt: 1 },
      ...{ startedAt: 1, completedAt: 2, cancelReason: null, cancelledAt: null, tokenHash: null },
    },
    [],
  )
  return { repositoryId, runId }
}

function shellOf(of: { repositoryId: string; runId: string }, holder = 'h'): RunShellRow {
  return {
    ...{ id: newId(), ...of, workspaceId: 'w', holder, actorId: 'a', actorUsername: 'ada' },
    ...{ terminalColumns: null, terminalRows: null, term: 'dumb', openedAt: 5, startedAt: null },
    ...{ userSeenAt: 5, runnerSeenAt: 5, inputSize: 0, inputRead: 0, outputSize: 0 },
    ...{ outputRead: 0, isInputClosed: 0, endedAt: null, exitCode: null, endReason: '' },
  }
}

async function addShell(db: Database): Promise<string> {
  const shell = shellOf(await addRun(db))
  assert.equal(await insertShell(db, shell), true)
  return shell.id
}

const now = () => ({ deadline: performance.now(), signal: new AbortController().signal })
const later = () => ({ ...now(), deadline: performance.now() + 60_000 })
const never = async () => false

onEachDatabase((fresh) => {
  test('a run has one shell that has not ended', async () => {
    await using database = await fresh()
    const db = await database.open()
    const run = await addRun(db)
    const [first, second] = [shellOf(run), shellOf(run)]
    const inserted = await Promise.all([insertShell(db, first), insertShell(db, second)])
    assert.deepEqual(inserted.toSorted(), [false, true])
    const { id = '' } = (await findOpenShell(db, run.runId)) ?? {}
    assert.equal(await updateShell(db, id, { endedAt: 9, exitCode: 3 }), true)
    assert.equal(await updateShell(db, id, { endedAt: 10, exitCode: 4 }), false)
    assert.equal((await findShell(db, id))?.exitCode, 3)
    assert.equal(await insertShell(db, shellOf(run)), true)
    await deleteEndedShells(db, 9)
    assert.notEqual(await findShell(db, id), undefined)
    await deleteEndedShells(db, 10)
    assert.equal(await findShell(db, id), undefined)
    assert.notEqual(await findOpenShell(db, run.runId), undefined)
  })

  test('a shell is taken once, by the runner of its workspace', async () => {
    await using database = await fresh()
    const db = await database.open()
    const [old, young] = [shellOf(await addRun(db)), shellOf(await addRun(db))]
    for (const shell of [old, young]) await insertShell(db, shell)
    assert.equal(await takeShell(db, 'other', 7), undefined)
    const taken = await Promise.all([takeShell(db, 'h', 7), takeShell(db, 'h', 7)])
    // The second may come before or after the first is recorded.
    const first = taken.find((one) => one?.id === old.id)
    assert.equal(first?.startedAt, 7)
    const ids = taken.flatMap((one) => (one ? [one.id] : []))
    assert.equal(new Set(ids).size, ids.length)
    await updateShell(db, young.id, { endedAt: 8 })
    assert.equal(await takeShell(db, 'h', 9), undefined)
  })

  test('bytes arrive in order, each once, also when requests are repeated', async () => {
    await using database = await fresh()
    const db = await database.open()
    const changes = createNotifier()
    const streams = createShellStreams({ db, changes, vault })
    const id = await addShell(db)
    const append = (start: number, text: string) =>
      streams.append(id, 'input', { start, bytes: Buffer.from(text) }, now())
    const read = async (after: number) => {
      const { bytes, next } = await streams.read(id, 'input', after, { ...now(), isOver: never })
      return [bytes.toString(), next]
    }
    assert.deepEqual(await read(0), ['', 0])
    assert.equal(await append(0, 'one\0'), 4)
    assert.equal(await append(4, 'two'), 7)
    assert.equal(await append(0, 'one\0'), 7)
    assert.equal(await append(7, ''), 7)
    assert.deepEqual(await read(0), ['one\0two', 7])
    assert.deepEqual(await read(0), ['one\0two', 7])
    assert.deepEqual(await read(4), ['two', 7])
    assert.deepEqual(await read(7), ['', 7])
    assert.deepEqual(await read(0), ['', 7])
    await assert.rejects(append(8, 'x'), { code: 'invalid_request' })
    await assert.rejects(read(8), { code: 'invalid_request' })
    const output = { start: 0, bytes: Buffer.from('back') }
    assert.equal(await streams.append(id, 'output', output, now()), 4)
    assert.equal(await append(7, 'end'), 10)
    assert.deepEqual(await read(7), ['end', 10])
  })

  test('what is on its way is sealed, each piece for its place', async () => {
    await using database = await fresh()
    const db = await database.open()
    const streams = createShellStreams({ db, changes: createNotifier(), vault })
    const id = await addShell(db)
    for (const [start, text] of [
      [0, 'hunter'],
      [6, 'winter'],
    ] as const)
      await streams.append(id, 'output', { start, bytes: Buffer.from(text) }, now())
    const pieces = await db.selectFrom('runShellBytes').selectAll().orderBy('start').execute()
    const stored = Buffer.concat(pieces.map(({ sealedBytes }) => sealedBytes)).toString('latin1')
    for (const text of ['hunter', Buffer.from('hunter').toString('base64')])
      assert.ok(!stored.includes(text))
    const [first] = pieces
    await db.updateTable('runShellBytes').set({ sealedBytes: first?.sealedBytes }).execute()
    const reading = streams.read(id, 'output', 0, { ...now(), isOver: never })
    await assert.rejects(reading, { code: 'secret_unreadable' })
  })

  test('a writer waits while the window is full, and a reader for bytes', async () => {
    await using database = await fresh()
    const db = await database.open()
    const streams = createShellStreams({ db, changes: createNotifier(), vault })
    const id = await addShell(db)
    const reading = streams.read(id, 'output', 0, { ...later(), isOver: never })
    const bytes = Buffer.alloc(pieceBytes, 'x')
    for (let start = 0; start < 4 * pieceBytes; start += pieceBytes)
      await streams.append(id, 'output', { start, bytes }, now())
    assert.equal((await reading).bytes.length % pieceBytes, 0)
    const start = 4 * pieceBytes
    assert.equal(await streams.append(id, 'output', { start, bytes }, now()), start)
    const waiting = streams.append(id, 'output', { start, bytes }, later())
    await streams.read(id, 'output', pieceBytes, { ...now(), isOver: never })
    assert.equal(await waiting, 5 * pieceBytes)
  })

  test('after the end of a shell its output can be read, and bytes are discarded', async () => {
    await using database = await fresh()
    const db = await database.open()
    const changes = createNotifier()
    const streams = createShellStreams({ db, changes, vault })
    const id = await addShell(db)
    await streams.append(id, 'output', { start: 0, bytes: Buffer.from('last') }, now())
    await updateShell(db, id, { endedAt: 7 })
    const late = { start: 4, bytes: Buffer.from('late') }
    assert.equal(await streams.append(id, 'output', late, now()), 8)
    const isOver = async ({ endedAt }: RunShellRow) => endedAt !== null
    const { bytes, next, shell } = await streams.read(id, 'output', 0, { ...later(), isOver })
    assert.deepEqual([bytes.toString(), next, shell.outputSize], ['last', 4, 4])
    const rest = await streams.read(id, 'output', 4, { ...later(), isOver })
    assert.deepEqual([rest.bytes.length, rest.next], [0, 4])
    const unknown = streams.read(newId(), 'output', 0, { ...now(), isOver })
    await assert.rejects(unknown, { code: 'shell_not_found' })
  })

  test('workspaces are forgotten with their runner, their run and their time', async () => {
    await using database = await fresh()
    const db = await database.open()
    const { repositoryId, runId } = await addRun(db)
    const add = async (holder: string, attempt = 1) => {
      const id = newId()
      const about = { job: 'test', runner: `of ${holder}`, keptMs: 1000, removedAt: null }
      await insertFailedWorkspace(db, {
        ...{ id, runId, repositoryId, attempt, holder, seenAt: 5, ...about },
      })
      return id
    }
    const removedOf = async (attempt = 1) =>
      (await listFailedWorkspaces(db, { runId, attempt })).map(({ removedAt }) => removedAt)
    const [first, second] = [await add('h'), await add('h')]
    await add('other')
    assert.deepEqual(
      (await listHeld(db, 'h')).map(({ id }) => id).toSorted(),
      [first, second].toSorted(),
    )
    await markRemoved(db, { holder: 'other', ids: [first], removedAt: 6 })
    assert.deepEqual(await removedOf(), [null, null, null])
    await markRemoved(db, { holder: 'h', ids: [first], removedAt: 6 })
    assert.deepEqual(await removedOf(), [6, null, null])
    assert.deepEqual(await markLost(db, 'of other', 7), ['other'])
    assert.deepEqual(await removedOf(), [6, null, 7])
    await touchFailedWorkspaces(db, [second], 20)
    await expireFailedWorkspaces(db, { now: 30, seenBefore: 20, removedBefore: 7 })
    assert.deepEqual(await removedOf(), [null, 7])
    await expireFailedWorkspaces(db, { now: 30, seenBefore: 21, removedBefore: 8 })
    assert.deepEqual(await removedOf(), [30])
    await add('third', 2)
    assert.deepEqual(await deleteFailedWorkspaces(db, { runId, attempt: 1 }), ['h'])
    assert.deepEqual([await removedOf(), await removedOf(2)], [[], [null]])
    assert.deepEqual(await deleteFailedWorkspaces(db, { repositoryId }), ['third'])
  })
})
