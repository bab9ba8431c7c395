import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { text } from 'node:stream/consumers'
import { after, before, beforeEach, test } from 'node:test'
import { anonymousFrom, localPrincipal, type Principal } from '#access/principal.ts'
import { createLog } from '#base/log.ts'
import { challengeOf } from '#base/secret-string.ts'
import { Sensitive } from '#base/sensitive.ts'
import { createRecordRefusal } from '#events/audit/record-refusal.ts'
import { createVault } from '#secrets/vault/vault.ts'
import { type Fresh, onEachDatabase } from '../../../test/support/databases.ts'
import { publish } from '../../../test/support/publish.ts'
import { providerAt, startTestIssuer, type TestIssuer } from '../../../test/support/test-issuer.ts'
import { createSessions } from '../sessions/sessions.ts'
import { createTokens } from '../tokens/tokens.ts'
import { findUser, updateUser } from '../user-store.ts'
import { createUsers } from '../users/users.ts'
import { createCliLogins } from './cli-logins.ts'
import { endForeignLogins } from './people.ts'
import { createLogins } from './provider-logins.ts'
import { createSealTokens, resealRefreshTokens } from './sealed-tokens.ts'

const formType = 'application/x-www-form-urlencoded'
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
  const vault = createVault(new Sensitive([randomBytes(32)]))
  const repositories = {
    ...{ idsOf: async () => [], namesOf: async () => new Map() },
    namesOwnedBy: async () => [],
  }
  const nothingElse = {
    repositories,
    trustRules: { removeOf: async () => [] },
    collaborators: { removeUser: async () => [] },
  }
  async function startNode() {
    const db = await fresh.open()
    const tokens = createTokens({ db, publish, clock, log, repositories })
    const sessions = createSessions({ db, clock, log, refresh: tokens.refresh })
    const sealTokens = async () => createSealTokens(keys.vault)
    const provider = providerAt(issuer.url)
    const recordRefusal = createRecordRefusal({ db, clock })
    const parts = { db, publish, clock, log, provider, rules, recordRefusal }
    const logins = createLogins({ ...parts, sessions, sealTokens })
    const cliLogins = createCliLogins({ db, publish, clock, tokens })
    const users = createUsers({ ...parts, ...nothingElse, settings: { oidcIssuer: undefined } })
    return { db, clock, publish, tokens, sessions, logins, cliLogins, users }
  }
  const keys = { vault }
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
    ...{ one, other, caller, redirectUri, logIn, keys },
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
    const { principal, next } = await logIn(ada)
    assert.deepEqual([principal.username, next, principal.expiresAt], ['ada', '/r/site', null])
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
    // Two first logins of one person, as from two tabs.
    const lin = { sub: 'lin', preferred_username: 'lin' }
    const [tab, otherTab] = await Promise.all([logIn(lin), logIn(lin)])
    assert.equal(tab.principal.id, otherTab.principal.id)
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
    // As after two days on which svc was off itself.
    issuer.change.handlers = { '/token': (response) => response.writeHead(503).end() }
    await wait(48 * 60)
    assert.equal(await isValid(principal), true)
    issuer.change.handlers = { '/userinfo': (response) => response.destroy() }
    for (let hour = 1; hour <= 25; hour++) await wait(60)
    assert.equal(await isValid(principal), false)
  })

  test('without refresh tokens the sessions and tokens of a login end after twelve hours', async () => {
    await using database = await fresh()
    const { one, logIn, wait, isValid } = await startNodes(database)
    issuer.change.hasRefreshTokens = false
    const { principal } = await logIn({ ...ada, groups: ['ops'] })
    const means = 'identity-provider' as const
    const { secret, session } = await one.sessions.create(principal, 'a browser', { means })
    const end = principal.expiresAt ?? assert.fail()
    const delegated = await one.tokens.delegated.delegate(principal, { name: 'x' })
    const own = await one.tokens.create(principal, { name: 'x', username: 'ada' })
    assert.deepEqual([delegated.expiresAt, own.expiresAt], [end, end])
    const longer = { name: 'x', username: 'ada', expiresInDays: null }
    await assert.rejects(one.tokens.create(principal, longer), { code: 'token_limited' })
    const from = { challenge: challengeOf('v'.repeat(43)), machine: 'laptop', address: '' }
    const code = await one.cliLogins.authorize({ principal, sessionId: session.id }, from)
    const token = String(await one.cliLogins.redeem(code, 'v'.repeat(43)))
    await wait(12 * 60 - 1)
    assert.ok(await one.sessions.open(secret))
    assert.ok(await one.tokens.authenticate(token))
    await wait(1)
    assert.equal(await one.sessions.open(secret), undefined)
    assert.equal(await one.tokens.authenticate(token), undefined)
    assert.equal(await isValid(principal), false)
    assert.equal(await isValid((await logIn(ada)).principal), true)
  })

  test('a consent to a command line ends with its session, and when its user is disabled', async () => {
    await using database = await fresh()
    const { one, other, logIn } = await startNodes(database)
    const { principal } = await logIn({ ...ada, groups: ['ops'] })
    const created = await one.tokens.create(principal, { name: 'x', username: 'ada' })
    const ofToken = (await one.tokens.authenticate(created.token)) ?? assert.fail()
    const verifier = 'v'.repeat(43)
    const from = { challenge: challengeOf(verifier), machine: 'laptop', address: '' }
    for (const caller of [principal, ofToken]) {
      /** Codes to which the user consents in a new session. */
      async function consentTwice() {
        const { session } = await one.sessions.create(caller, 'a browser', { means: 'token' })
        const consenter = { principal: caller, sessionId: session.id }
        const { userCode } = await one.cliLogins.request(from)
        assert.equal(await other.cliLogins.redeem(userCode, verifier), 'pending')
        assert.equal(await one.cliLogins.consent(consenter, userCode), true)
        return { session, codes: [userCode, await one.cliLogins.authorize(consenter, from)] }
      }
      const redeemAll = (codes: string[]) =>
        Promise.all(codes.map((code) => other.cliLogins.redeem(code, verifier)))
      const { session, codes } = await consentTwice()
      assert.equal(await other.sessions.end(caller, session.id), true)
      assert.deepEqual(await redeemAll(codes), [undefined, undefined])
      const expired = await consentTwice()
      await one.db.updateTable('sessions').set({ expiresAt: 0 }).execute()
      assert.deepEqual(await redeemAll(expired.codes), [undefined, undefined])
      const ofDisabled = await consentTwice()
      for (const disabled of [true, false])
        await one.users.update(localPrincipal, 'ada', { disabled })
      assert.deepEqual(await redeemAll(ofDisabled.codes), [undefined, undefined])
      for (const token of await redeemAll((await consentTwice()).codes))
        assert.ok(await one.tokens.authenticate(String(token)))
    }
  })

  test('a login that ended while it was checked stays ended', async () => {
    await using database = await fresh()
    const { logIn, wait, isValid, userOf } = await startNodes(database)
    const { principal } = await logIn(ada)
    issuer.change.handlers = {
      '/token': async (response, request) => {
        issuer.change.handlers = {}
        const body = await text(request)
        await assert.rejects(logIn({ ...ada, groups: [] }), refused)
        const answer = await fetch(`${issuer.url}/token`, {
          ...{ method: 'POST', body },
          headers: {
            authorization: String(request.headers.authorization),
            'content-type': formType,
          },
        })
        response.writeHead(answer.status, { 'content-type': 'application/json' })
        response.end(await answer.text())
      },
    }
    await wait(15)
    assert.equal(await isValid(principal), false)
    assert.ok((await userOf('ada'))?.loginEndedAt)
  })

  test('a check is no sign of the person, and all that are due are made at once', async () => {
    await using database = await fresh()
    const { one, logIn, wait, userOf } = await startNodes(database)
    await logIn(ada)
    const { lastSeenAt } = (await userOf('ada')) ?? assert.fail()
    const [login = assert.fail()] = await one.db.selectFrom('logins').selectAll().execute()
    const others = Array.from({ length: 250 }, (_, index) => `user${index}`)
    const loggedIn = { source: 'login', createdAt: 1, email: '', displayName: '' } as const
    const states = { lastSeenAt: null, disabledAt: null, loginEndedAt: null }
    const toUser = (username: string) => ({ id: username, username, ...loggedIn, ...states })
    await one.db.insertInto('users').values(others.map(toUser)).execute()
    const toLogin = (id: string) => ({
      ...login,
      id,
      username: id,
      subject: id,
      refreshToken: null,
    })
    await one.db.insertInto('logins').values(others.map(toLogin)).execute()
    await wait(15)
    assert.equal((await userOf('ada'))?.lastSeenAt, lastSeenAt)
    const isEnded = one.db.selectFrom('users').select('id').where('loginEndedAt', 'is not', null)
    assert.equal((await isEnded.execute()).length, others.length)
  })

  test('logins at another issuer than that of the settings end when the server starts', async () => {
    await using database = await fresh()
    const { one, logIn, isValid, userOf } = await startNodes(database)
    const { principal } = await logIn(ada)
    assert.equal(await endForeignLogins(one, issuer.url), 0)
    assert.equal(await isValid(principal), true)
    assert.equal(await endForeignLogins(one, 'https://other.example'), 1)
    assert.equal(await isValid(principal), false)
    assert.ok((await userOf('ada'))?.loginEndedAt)
    const again = await logIn(ada)
    assert.equal(await endForeignLogins(one, undefined), 1)
    assert.equal(await endForeignLogins(one, undefined), 0)
    assert.equal(await isValid(again.principal), false)
  })

  test('refresh tokens are sealed with the new key by a rotation, and a missing key ends no login', async () => {
    await using database = await fresh()
    const { one, logIn, wait, isValid, keys } = await startNodes(database)
    const { principal } = await logIn(ada)
    const [old, next] = [keys.vault, createVault(new Sensitive([randomBytes(32)]))]
    keys.vault = next
    await wait(15)
    assert.equal(await isValid(principal), true)
    const both = { ...next, open: (...given: Parameters<typeof old.open>) => old.open(...given) }
    const { signal } = new AbortController()
    assert.equal(await resealRefreshTokens(one.db, both, signal), 1)
    assert.equal(await resealRefreshTokens(one.db, both, signal), 0)
    issuer.update('1', { ...ada, groups: ['ops'] })
    await wait(15)
    assert.ok((await one.tokens.refresh(principal))?.permissions.has('admin'))
  })

  test('the audit log has admins by their groups, and a few of the logins that were refused', async () => {
    await using database = await fresh()
    const { one, logIn, wait } = await startNodes(database)
    await logIn({ ...ada, groups: ['ops'] })
    issuer.update('1', { ...ada, groups: ['staff'] })
    await wait(15)
    const events = one.db.selectFrom('events').select('data').where('kind', '=', 'user.updated')
    const admins = (await events.execute()).map(({ data }) => JSON.parse(data).admin)
    assert.deepEqual(admins, [true, false])
    for (let attempt = 0; attempt < 5; attempt++)
      await assert.rejects(logIn({ ...ada, sub: '2', groups: ['guests'] }), refused)
    const audit = one.db.selectFrom('audit').select('data').where('action', '=', 'login.refused')
    const entries = (await audit.execute()).map(({ data }) => JSON.parse(data))
    assert.equal(entries.length, 3)
    const [{ subject, reason }] = entries
    assert.deepEqual([subject, /in none of the groups/.test(reason)], ['2', true])
  })
})
