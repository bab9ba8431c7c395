import assert from 'node:assert/strict'
import { test } from 'node:test'
import { localPrincipal } from '#access/principal.ts'
import { dayMs } from '#base/clock.ts'
import { createLog } from '#base/log.ts'
import { type Fresh, onEachDatabase } from '../../../test/support/databases.ts'
import { publish } from '../../../test/support/publish.ts'
import { newKeyLine } from '../../../test/support/ssh-keys.ts'
import { createSshKeys } from '../ssh-keys/ssh-keys.ts'
import { createTokens } from '../tokens/tokens.ts'
import { createUsers } from '../users/users.ts'
import { createSessions } from './sessions.ts'

const log = createLog({ level: 'silent', output: process.stderr })
const repositories = {
  ...{ idsOf: async () => [], namesOf: async () => new Map() },
  namesOwnedBy: async () => [],
}
const nothingElse = {
  trustRules: { removeOf: async () => [] },
  collaborators: { removeUser: async () => [] },
}

/** Nodes that share a database and a clock, each with a connection of its own. */
async function startNodes(fresh: Fresh, count: number) {
  let now = Date.now()
  const clock = { now: () => now }
  const nodes = await Promise.all(
    Array.from({ length: count }, async () => {
      const db = await fresh.open()
      const parts = { db, publish, clock, log, repositories, settings: { oidcIssuer: undefined } }
      const tokens = createTokens(parts)
      return {
        ...{ db, tokens, keys: createSshKeys(parts) },
        sessions: createSessions({ ...parts, refresh: tokens.refresh }),
        users: createUsers({ ...parts, ...nothingElse }),
      }
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

  test('no token, key or session of a user begins after it was disabled or deleted', async () => {
    await using database = await fresh()
    const { nodes } = await startNodes(database, 2)
    const [one, two] = nodes
    assert.ok(one && two)
    const idsOf = async () => {
      const [tokens, keys, sessions] = await Promise.all([
        one.db.selectFrom('tokens').select('id').orderBy('id').execute(),
        one.db.selectFrom('sshKeys').select('id').orderBy('id').execute(),
        one.db.selectFrom('sessions').select('id').orderBy('id').execute(),
      ])
      return [tokens, keys, sessions]
    }
    for (const username of ['disabled', 'deleted']) {
      const rights = { name: 'x', permissions: ['admin' as const], username }
      const { token } = await one.tokens.create(localPrincipal, rights)
      // As when the request was admitted.
      const principal = (await two.tokens.authenticate(token)) ?? assert.fail()
      const begin = [
        () => two.tokens.create(principal, rights),
        () => two.tokens.create(principal, { ...rights, username: 'another' }),
        () => two.tokens.delegated.delegate(principal, { name: 'x' }),
        () => two.keys.add(principal, { publicKey: newKeyLine() }),
        () => two.sessions.create(principal, 'a browser', { means: 'token' }),
      ]
      const racing = Promise.allSettled(begin.map((one) => one()))
      if (username === 'deleted') await one.users.remove(localPrincipal, username)
      else await one.users.update(localPrincipal, username, { disabled: true })
      const before = await idsOf()
      await racing
      for (const beginOne of begin) await assert.rejects(beginOne(), { code: 'token_invalid' })
      assert.deepEqual(await idsOf(), before)
    }
  })

  test('no right is passed on that a token has lost since the request was admitted', async () => {
    await using database = await fresh()
    const { nodes } = await startNodes(database, 1)
    const [node = assert.fail()] = nodes
    const rights = { name: 'x', username: 'ada', permissions: ['admin' as const] }
    const { token } = await node.tokens.create(localPrincipal, rights)
    const principal = (await node.tokens.authenticate(token)) ?? assert.fail()
    await node.db.updateTable('tokens').set({ permissions: 'repo:read' }).execute()
    for (const begin of [
      () => node.tokens.create(principal, rights),
      () => node.tokens.delegated.delegate(principal, { name: 'x', permissions: ['repo:write'] }),
      () => node.keys.add(principal, { publicKey: newKeyLine(), permissions: ['repo:write'] }),
    ])
      await assert.rejects(begin(), { code: 'permission_missing' })
    await node.tokens.delegated.delegate(principal, { name: 'x', permissions: ['repo:read'] })
  })
})
