import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, beforeEach, test } from 'node:test'
import { anonymousFrom, type Principal } from '#access/principal.ts'
import { createLog } from '#base/log.ts'
import { Sensitive } from '#base/sensitive.ts'
import { createVault } from '#secrets/vault/vault.ts'
import { type Fresh, onEachDatabase } from '../../../test/support/databases.ts'
import { publish } from '../../../test/support/publish.ts'
import { providerAt, startTestIssuer, type TestIssuer } from '../../../test/support/test-issuer.ts'
import { createSessions } from '../sessions/sessions.ts'
import { createTokens } from '../tokens/tokens.ts'
import { findUser, updateUser } from '../user-store.ts'
import { createLogins } from './provider-logins.ts'
import { createSealTokens } from './sealed-tokens.ts'

let issuer: TestIssuer

before(async () => {
  issuer = await startTestIssuer()
})

beforeEach(() => issuer.reset())

after(() => issuer[Symbol.asyncDispose]())

const log = createLog({ level: 'silent', output: process.stderr })
const rules = { allowedGroups: ['staff'], adminGroups: ['ops'] }
const minuteMs = 60_000

/** Two nodes that share a database, a clock and a vault. */
async function startNodes(fresh: Fresh) {
  let now = Date.now()
  const clock = { now: () => now }
  const opened = createVault(new Sensitive([randomBytes(32)]))
  const repositories = { idsOf: async () => [], namesOf: async () => new Map() }
  async function startNode() {
    const db = await fresh.open()
    const tokens = createTokens({ db, publish, clock, log, repositories })
    const sessions = createSessions({ db, clock, log, refresh: tokens.refresh })
    const sealTokens = createSealTokens(async () => opened)
    const provider = providerAt(issuer.url)
    const parts = { db, publish, clock, log, provider, rules, sessions, sealTokens }
    return { db, tokens, sessions, logins: createLogins(parts) }
  }
  const [one, other] = [await startNode(), await startNode()]
  const caller = anonymousFrom('192.0.2.1', false)
  const redirectUri = 'https://svc.example/-/login/callback'

  /** Logs a person in, who begins on one node and comes back to the other. */
  async function logIn(claims: Record<string, unknown>) {
    const staff = { groups: ['staff'], ...claims, sub: String(claims.sub) }
    const begun = await one.logins.begin({ redirectUri, next: '/r/site', browserSecret: undefined })
    const login = await other.logins.complete({
      ...{ callback: issuer.authorize(begun.address, staff), caller, session: undefined },
      browserSecrets: [begun.browserSecret],
    })
    return 'principal' in login ? login : assert.fail()
  }

  return {
    ...{ one, other, caller, redirectUri, logIn },
    userOf: (username: string) => findUser(one.db, username),
    groupsOf: async (username: string) => {
      const query = one.db.selectFrom('userGroups').select('name').where('username', '=', username)
      return (await query.execute()).map(({ name }) => name).sort()
    },
    /** The time passes, and both nodes check what is due. */
    async wait(minutes: number) {
      now += minutes * minuteMs
      await Promise.all([one.logins.checkDue(), other.logins.checkDue()])
    },
    /** Whether a principal is still valid. */
    isValid: async (principal: Principal) => (await one.tokens.refresh(principal)) !== undefined,
  }
}

const ada = { sub: '1', preferred_username: 'ada', name: 'Ada', email: 'ada@example.com' }
const refused = { code: 'login_refused' }

onEachDatabase((fresh) => {
  test('the first login makes the user, whose names follow the provider but for the username', async () => {
    await using database = await fresh()
    const { logIn, userOf, groupsOf } = await startNodes(database)
    const { principal, next, endsAt } = await logIn(ada)
    assert.deepEqual([principal.username, next, endsAt], ['ada', '/r/site', undefined])
    assert.ok(principal.permissions.has('repo:write') && !principal.permissions.has('admin'))
    const user = await userOf('ada')
    const { displayName, email, source } = user ?? assert.fail()
    assert.deepEqual([displayName, email, source], ['Ada', 'ada@example.com', 'login'])
    const again = await logIn({ ...ada, preferred_username: 'countess', name: 'Ada L.' })
    assert.deepEqual([again.principal.username, again.principal.id], ['ada', principal.id])
    assert.equal((await userOf('ada'))?.displayName, 'Ada L.')
    // The name that the person has now is free for another one.
    const other = await logIn({ ...ada, sub: '2', preferred_username: 'countess' })
    assert.notEqual(other.principal.id, principal.id)
    assert.deepEqual(await groupsOf('ada'), ['staff'])
    await logIn({ ...ada, groups: ['staff', 'web'] })
    assert.deepEqual(await groupsOf('ada'), ['staff', 'web'])
  })

  test('a username that another user has, or that cannot be one, is refused', async () => {
    await using database = await fresh()
    const { logIn, one } = await startNodes(database)
    const admin = await one.tokens.setUp(undefined)
    assert.ok(admin)
    await logIn(ada)
    const names = ['admin', 'ADMIN', 'Ada', 'аda', 'ada\u200b', 'ada ', '', '../ada', undefined]
    for (const [index, name] of names.entries()) {
      const login = logIn({ sub: `x${index}`, preferred_username: name })
      await assert.rejects(login, refused, String(name))
    }
    // The first gets it, and only once.
    const racing = await Promise.allSettled(
      ['grace', 'GRACE', 'grace'].map((name, index) =>
        logIn({ sub: `r${index}`, preferred_username: name }),
      ),
    )
    assert.equal(racing.filter(({ status }) => status === 'fulfilled').length, 1)
  })

  test('who is in no allowed group, or disabled, is refused in words', async () => {
    await using database = await fresh()
    const { logIn, one, userOf, isValid } = await startNodes(database)
    await assert.rejects(logIn({ ...ada, groups: ['guests'] }), { ...refused, message: /groups/ })
    assert.equal(await userOf('ada'), undefined)
    const { principal } = await logIn(ada)
    await updateUser(one.db, 'ada', { disabledAt: 1 })
    await assert.rejects(logIn(ada), { ...refused, message: /disabled/ })
    assert.equal(await isValid(principal), false)
    await updateUser(one.db, 'ada', { disabledAt: null })
    assert.equal(await isValid(principal), true)
    // A login that is refused ends the former one.
    await assert.rejects(logIn({ ...ada, groups: [] }), refused)
    assert.equal(await isValid(principal), false)
  })

  test('a login is completed once, by the browser that began it, within ten minutes', async () => {
    await using database = await fresh()
    const { one, other, redirectUri, caller, wait } = await startNodes(database)
    issuer.change.isCareless = true
    const person = { ...ada, groups: ['staff'] }
    const begin = (browserSecret?: string) =>
      one.logins.begin({ redirectUri, next: '/', browserSecret })
    const complete = (callback: URL, ...browserSecrets: string[]) =>
      other.logins.complete({ callback, browserSecrets, session: undefined, caller })
    const [begun, attacker] = [await begin(), await begin()]
    const callback = issuer.authorize(attacker.address, person)
    await assert.rejects(complete(callback, begun.browserSecret), refused)
    await assert.rejects(complete(callback), refused)
    const own = issuer.authorize(begun.address, person)
    await complete(own, begun.browserSecret)
    await assert.rejects(complete(own, begun.browserSecret), refused)
    // Two tabs of a browser.
    const [first, second] = [await begin(begun.browserSecret), await begin(begun.browserSecret)]
    await complete(issuer.authorize(second.address, person), begun.browserSecret)
    await complete(issuer.authorize(first.address, person), begun.browserSecret)
    const late = await begin()
    await wait(10)
    await assert.rejects(
      complete(issuer.authorize(late.address, person), late.browserSecret),
      refused,
    )
    assert.deepEqual(await one.db.selectFrom('loginAttempts').selectAll().execute(), [])
  })

  test('a session is confirmed by the same person in the same session', async () => {
    await using database = await fresh()
    const { one, other, redirectUri, logIn } = await startNodes(database)
    const { principal } = await logIn(ada)
    const { secret } = await one.sessions.create(principal, 'a browser', { means: 'token' })
    const opened = (await one.sessions.open(secret)) ?? assert.fail()
    const confirm = async (sub: string, session = opened.session) => {
      const asked = { redirectUri, next: '/', browserSecret: undefined, session: opened.session }
      const { address, browserSecret } = await one.logins.begin(asked)
      const callback = issuer.authorize(address, { ...ada, sub, groups: ['staff'] })
      const caller = opened.principal
      return other.logins.complete({ callback, browserSecrets: [browserSecret], session, caller })
    }
    await assert.rejects(confirm('2'), refused)
    await assert.rejects(confirm('1', { ...opened.session, id: 'another' }), refused)
    await one.db.updateTable('sessions').set({ unlockedUntil: 0 }).execute()
    assert.deepEqual(await confirm('1'), { next: '/', confirmed: true })
    assert.ok(((await one.sessions.open(secret))?.session.unlockedUntil ?? 0) > 0)
  })

  test('a change of groups takes effect within the hour, on tokens of every kind', async () => {
    await using database = await fresh()
    const { one, logIn, wait, isValid, groupsOf, userOf } = await startNodes(database)
    const { principal } = await logIn({ ...ada, groups: ['staff', 'ops'] })
    assert.ok(principal.permissions.has('admin'))
    const token = { name: 'x', permissions: ['admin' as const] }
    const delegated = await one.tokens.delegated.delegate(principal, token)
    const own = await one.tokens.create(principal, { ...token, username: 'ada' })
    const rightsOf = async (id: string) => (await one.tokens.principalOf(id)).permissions
    issuer.update('1', { ...ada, name: 'Ada L.', groups: ['staff', 'web'] })
    await wait(59)
    for (const { id } of [principal, delegated, own]) {
      const rights = await rightsOf(id)
      assert.ok(!rights.has('admin') && rights.has('repo:write'))
    }
    assert.deepEqual(await groupsOf('ada'), ['staff', 'web'])
    assert.equal((await userOf('ada'))?.displayName, 'Ada L.')
    issuer.update('1', { ...ada, groups: ['ops'] })
    await wait(59)
    assert.ok((await rightsOf(principal.id)).has('admin'))
    assert.ok(!(await rightsOf(own.id)).has('admin'))
    issuer.update('1', { ...ada, groups: ['guests'] })
    await wait(59)
    for (const one of [principal, { ...principal, id: delegated.id }, { ...principal, id: own.id }])
      assert.equal(await isValid(one), false)
    assert.deepEqual(await groupsOf('ada'), [])
  })

  test('who is gone from the provider loses everything until the next login', async () => {
    await using database = await fresh()
    const { one, logIn, wait, isValid, userOf } = await startNodes(database)
    const admin = await one.tokens.authenticate((await one.tokens.setUp(undefined)) ?? '')
    assert.ok(admin)
    const { principal } = await logIn(ada)
    const { secret } = await one.sessions.create(principal, 'a browser', { means: 'token' })
    const { token } = await one.tokens.create(admin, { name: 'older', username: 'ada' })
    issuer.forget('1')
    await wait(15)
    assert.equal(await isValid(principal), false)
    assert.equal(await one.sessions.open(secret), undefined)
    assert.equal(await one.tokens.authenticate(token), undefined)
    assert.ok((await userOf('ada'))?.loginEndedAt)
    await logIn(ada)
    assert.ok(await one.tokens.authenticate(token))
    assert.equal(await one.sessions.open(secret), undefined)
  })

  test('a provider that is down ends no login for a day', async () => {
    await using database = await fresh()
    const { logIn, wait, isValid } = await startNodes(database)
    const { principal } = await logIn(ada)
    issuer.change.handlers = { '/token': (response) => response.writeHead(503).end() }
    for (let hour = 1; hour < 24; hour++) await wait(60)
    assert.equal(await isValid(principal), true)
    issuer.change.handlers = {}
    await wait(60)
    assert.equal(await isValid(principal), true)
    issuer.change.handlers = { '/userinfo': (response) => response.destroy() }
    for (let hour = 1; hour <= 25; hour++) await wait(60)
    assert.equal(await isValid(principal), false)
  })

  test('without refresh tokens a session ends after twelve hours', async () => {
    await using database = await fresh()
    const { one, logIn, wait } = await startNodes(database)
    issuer.change.hasRefreshTokens = false
    const { principal, endsAt } = await logIn(ada)
    const means = 'identity-provider' as const
    const { secret } = await one.sessions.create(principal, 'a browser', { means, endsAt })
    await wait(12 * 60 - 1)
    assert.ok(await one.sessions.open(secret))
    await wait(1)
    assert.equal(await one.sessions.open(secret), undefined)
  })
})
