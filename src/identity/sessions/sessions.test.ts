import assert from 'node:assert/strict'
import { test } from 'node:test'
import { dayMs } from '#base/clock.ts'
import { createLog } from '#base/log.ts'
import { type Fresh, onEachDatabase } from '../../../test/support/databases.ts'
import { publish } from '../../../test/support/publish.ts'
import { createTokens } from '../tokens/tokens.ts'
import { createSessions } from './sessions.ts'

const log = createLog({ level: 'silent', output: process.stderr })
const repositories = { idsOf: async () => [], namesOf: async () => new Map() }

/** Nodes that share a database and a clock, each with a connection of its own. */
async function startNodes(fresh: Fresh, count: number) {
  let now = Date.now()
  const clock = { now: () => now }
  const nodes = await Promise.all(
    Array.from({ length: count }, async () => {
      const db = await fresh.open()
      const tokens = createTokens({ db, publish, clock, log, repositories })
      return { tokens, sessions: createSessions({ db, clock, log, refresh: tokens.refresh }), db }
    }),
  )
  return {
    nodes,
    wait: (ms: number) => {
      now += ms
    },
  }
}

onEachDatabase((fresh) => {
  test('a session that begins on one node is seen, unlocked and ended on others', async () => {
    await using database = await fresh()
    const { nodes, wait } = await startNodes(database, 3)
    const [one, two, three] = nodes.map(({ sessions }) => sessions)
    assert.ok(nodes[0] && one && two && three)
    const token = (await nodes[0].tokens.setUp(undefined)) ?? ''
    const principal = await nodes[0].tokens.authenticate(token)
    assert.ok(principal)

    const { secret, session } = await one.create(principal, 'a browser', { means: 'token' })
    wait(2 * 3_600_000)
    const opened = await two.open(secret)
    assert.equal(opened?.principal.id, principal.id)
    await two.unlock(session)
    assert.ok(Number((await three.open(secret))?.session.unlockedUntil) > session.unlockedUntil)
    assert.deepEqual(
      (await two.list(principal)).map(({ id }) => id),
      [session.id],
    )
    assert.equal(await three.end(principal, session.id), true)
    assert.equal(await one.open(secret), undefined)
    assert.equal(await two.end(principal, session.id), false)
  })

  test('a code logs in once, on whichever node it is redeemed', async () => {
    await using database = await fresh()
    const { nodes, wait } = await startNodes(database, 2)
    const [one, two] = nodes.map(({ sessions }) => sessions)
    assert.ok(nodes[0] && one && two)
    const principal = await nodes[0].tokens.authenticate(
      (await nodes[0].tokens.setUp(undefined)) ?? '',
    )
    assert.ok(principal)
    const { code } = await one.createCode(principal)
    assert.equal((await two.peekCode(code))?.id, principal.id)
    const redeemed = await Promise.all([one.redeemCode(code), two.redeemCode(code)])
    assert.deepEqual(
      redeemed.flatMap((holder) => holder?.id ?? []),
      [principal.id],
    )
    const late = await one.createCode(principal)
    wait(60_000)
    assert.equal(await two.redeemCode(late.code), undefined)
  })

  test('pruning deletes what has ended on one node, and keeps the rest on all', async () => {
    await using database = await fresh()
    const { nodes, wait } = await startNodes(database, 2)
    const [one, two] = nodes
    assert.ok(one && two)
    const principal = await one.tokens.authenticate((await one.tokens.setUp(undefined)) ?? '')
    assert.ok(principal)
    await one.sessions.create(principal, 'unseen for a week', { means: 'token' })
    await one.sessions.createCode(principal)
    wait(7 * dayMs)
    const { secret } = await two.sessions.create(principal, 'new', { means: 'token' })
    await Promise.all([one.sessions.prune(), two.sessions.prune()])
    const rows = await one.db.selectFrom('sessions').select('userAgent').execute()
    assert.deepEqual(rows, [{ userAgent: 'new' }])
    assert.deepEqual(await one.db.selectFrom('loginCodes').selectAll().execute(), [])
    assert.ok(await one.sessions.open(secret))
  })
})
