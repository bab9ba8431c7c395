import assert from 'node:assert/strict'
import { once } from 'node:events'
import { hostname } from 'node:os'
import { text } from 'node:stream/consumers'
import { after, before, test } from 'node:test'
import { type ClientHome, createClientHome } from '../support/client-home.ts'
import { until } from '../support/condition.ts'
import { freePort } from '../support/free-port.ts'
import { type InProcess, startInProcess } from '../support/in-process.ts'
import { type People, startLoginProvider } from '../support/login-provider.ts'

/** The people whom the provider knows. */
const people: People = {
  1001: { preferred_username: 'ada', name: 'Ada', email: 'ada@example.com', groups: ['staff'] },
  1002: { preferred_username: 'Admin', name: 'Mallory', groups: ['staff'] },
  1003: { preferred_username: 'grace', name: 'Grace', groups: ['ops'] },
}

const resources = new AsyncDisposableStack()
let service: InProcess
let provider: Awaited<ReturnType<typeof startLoginProvider>>

before(async () => {
  const port = await freePort()
  provider = resources.use(await startLoginProvider(`http://127.0.0.1:${port}`, people))
  service = resources.use(
    await startInProcess({
      ...provider.env,
      SVC_PORT: String(port),
      SVC_OIDC_ALLOWED_GROUPS: 'staff',
      SVC_OIDC_ADMIN_GROUPS: 'ops',
    }),
  )
})

after(() => resources.disposeAsync())

const auditOf = async (action: string) => (await service.admin.get(`/audit?action=${action}`)).body

test('people log in at the provider, which the login page offers first', async () => {
  const { here, logIn } = provider.createBrowser()
  const { text: login } = await here.get('/-/login?next=/-/keys')
  const [, first = ''] = /<a class="button primary" href="([^"]+)"/.exec(login) ?? []
  assert.equal(first, '/-/login/provider?next=%2F-%2Fkeys')
  const shown = await logIn('1001')
  assert.equal(shown.status, 200)
  assert.match(shown.text, /aria-label="Menu of ada"/)
  const { body } = await service.admin.get('/users/ada')
  assert.deepEqual([body.displayName, body.source], ['Ada', 'login'])
  const [entry] = await auditOf('session.created')
  assert.deepEqual([entry.actor.username, entry.data.means], ['ada', 'identity-provider'])
  // It goes on to no other host.
  const { here: other, logIn: logInOther } = provider.createBrowser()
  await logInOther('1001', '/-/login/provider?next=//evil.example/')
  assert.equal((await other.get('/')).status, 200)
})

test('a change is confirmed at the provider, in another tab', async () => {
  const { here, logIn } = provider.createBrowser()
  await logIn('1001')
  await service.db.updateTable('sessions').set({ unlockedUntil: 0 }).execute()
  const asked = await here.post('/-/new', { name: 'site' })
  assert.match(asked.text, /Confirm it is you[\s\S]*name="name" value="site"[\s\S]*login\/confirm/)
  assert.equal((await service.admin.get('/repos/site')).status, 404)
  assert.match((await logIn('1001', '/-/login/confirm')).text, /<h1>Confirmed/)
  assert.equal((await here.post('/-/new', { name: 'site' })).location, '/r/site')
  assert.equal((await service.admin.get('/repos/site')).body.ownerUsername, 'ada')
})

test('a log-out ends the session here, and leads to the log-out there', async () => {
  const { here, logIn } = provider.createBrowser()
  await logIn('1001')
  const { location } = await here.post('/-/logout', {})
  assert.equal(location, '/-/logged-out')
  const { headers, text } = await here.get('/-/logged-out')
  assert.match(
    headers.get('refresh') ?? '',
    new RegExp(`^0; url=${provider.issuer}/session/end\\?`),
  )
  assert.match(text, /<h1>Logged out/)
  assert.equal((await here.get('/-/tokens')).status, 303)
})

test('whom the service refuses learns why, and what to do', async () => {
  const { here, logIn } = provider.createBrowser()
  const taken = await logIn('1002')
  assert.equal(taken.status, 403)
  assert.match(taken.text, /&quot;Admin&quot; is that of another user[\s\S]*--login-subject 1002/)
  // The provider would let in the same person again.
  assert.match(taken.text, new RegExp(`href="${provider.issuer}/session/end\\?[^"]*">Log out of `))
  assert.equal((await here.get('/')).status, 303)
  const link = { loginSubject: '1002' }
  assert.equal((await service.admin.patch('/users/ada', link)).status, 200)
  const [{ data: refusal }] = await auditOf('login.refused')
  assert.deepEqual([refusal.issuer, refusal.subject], [`${provider.issuer}/`, '1002'])
  const [{ data: linked }] = await auditOf('user.updated')
  assert.deepEqual([linked.username, linked.loginSubject], ['ada', '1002'])
  assert.match((await logIn('1002')).text, /aria-label="Menu of ada"/)
  assert.equal((await service.admin.patch('/users/admin', link)).status, 400)
  await service.admin.patch('/users/ada', { disabled: true })
  assert.equal((await here.get('/')).status, 303)
  const disabled = await logIn('1002')
  assert.match(disabled.text, /The user &quot;ada&quot; is disabled/)
  await service.admin.patch('/users/ada', { disabled: false, loginSubject: '1001' })
  assert.equal((await here.get('/')).status, 303)
  const forged = await provider.createBrowser().here.get('/-/login/callback?code=x&state=y')
  assert.equal(forged.status, 403)
  assert.match(forged.text, /not begun in this browser/)
})

test('a member of an admin group is an admin, and sees the groups of users', async () => {
  const { here, logIn } = provider.createBrowser()
  await logIn('1003')
  const { body } = await service.admin.get('/tokens')
  const token = body.find(({ username }: { username: string }) => username === 'grace')
  assert.deepEqual([token.name, token.permissions.includes('admin')], ['login', true])
  const { text: users } = await here.get('/-/users')
  assert.match(users, new RegExp(`1003 at ${provider.issuer}/, in ops`))
})

/** The fields of the form on a page. */
const fieldsOf = (page: string) =>
  Object.fromEntries(
    [...page.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g)].map(
      ([, name = '', value = '']) => [name, value],
    ),
  )

/** Starts `svc login`, and waits for what it shows. */
async function startLogin(home: ClientHome, option: string, shown: RegExp, BROWSER = 'true') {
  const child = home.start(['login', service.url, option], { env: { BROWSER } })
  const closed = once(child, 'close')
  const printed = text(child.stdout)
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    said += chunk
  })
  await until(`it shows ${shown}`, () => shown.test(said))
  return {
    match: shown.exec(said)?.[0] ?? '',
    code: async () => (await closed)[0],
    stop: () => child.kill(),
    printed,
  }
}

test('a command line gets a token by the browser of its machine, and no other program does', async () => {
  await using home = await createClientHome()
  const { here, logIn } = provider.createBrowser()
  await logIn('1001')
  const { match, code, printed } = await startLogin(home, '--browser', /http\S+\/-\/cli\?\S+/)
  const { pathname, search, searchParams } = new URL(match)
  const asked = await here.get(pathname + search)
  assert.match(asked.text, /Only if you have just started <code>svc login[\s\S]*all of the rights/)
  assert.match(asked.text, /<dt>User<\/dt><dd>ada<[\s\S]*repo:write[\s\S]*90 days/)
  const consent = await here.post('/-/cli', fieldsOf(asked.text))
  const next = (consent.headers.get('refresh') ?? '').replace('0; url=', '')
  assert.ok(next.startsWith(`http://127.0.0.1:${searchParams.get('port')}/?`), next)
  const redeem = async (verifier: string) => {
    const given = new URL(next).searchParams.get('code') ?? ''
    return (await here.post('/-/cli/token', { code: given, verifier })).status
  }
  assert.equal(await redeem('x'.repeat(43)), 401)
  assert.equal((await fetch(next.replace(/state=[^&]+/, 'state=x'))).status, 400)
  assert.equal((await fetch(next)).status, 200)
  assert.equal(await code(), 0)
  assert.match(await printed, / It is valid until 20\d\d-\d\d-\d\d /)
  assert.match(await home.svc(['users', 'me']), /^Username: ada$/m)
  assert.equal(await redeem('x'.repeat(43)), 401)
})

test('a command line gets a token by a code, whose page says what and who gets it', async () => {
  await using home = await createClientHome()
  const { here, logIn } = provider.createBrowser()
  await logIn('1001')
  const { match, code } = await startLogin(home, '--code', /[A-Z]{4}-[A-Z]{4}/)
  // The same where no browser can be opened.
  const other = await startLogin(home, '--browser', /No browser [\s\S]*[A-Z]{4}-[A-Z]{4}/, '')
  other.stop()
  assert.equal((await here.post('/-/cli', { code: 'BBBB-BBBB' })).status, 401)
  const asked = await here.post('/-/cli', { code: match.toLowerCase() })
  assert.match(asked.text, new RegExp(`svc on ${hostname().replace(/[^\w.-]/g, '')}\\?`))
  assert.match(asked.text, /as this browser[\s\S]*repo:write/)
  // A session that was stolen cannot become a token.
  await service.db.updateTable('sessions').set({ unlockedUntil: 0 }).execute()
  const stale = await here.post('/-/cli', fieldsOf(asked.text))
  assert.equal(stale.status, 401)
  assert.match(stale.text, /login\/confirm/)
  await logIn('1001', '/-/login/confirm')
  assert.match((await here.post('/-/cli', fieldsOf(asked.text))).text, /Go on in the terminal/)
  assert.equal(await code(), 0)
  const { body } = await service.admin.get('/tokens')
  // People end the tokens of their logins themselves.
  const { text: page } = await here.get('/-/tokens')
  assert.equal(page.match(/row-title">svc login on /g)?.length, 2)
  const tokens = body.filter(({ name }: { name: string }) => name.startsWith('svc login on '))
  assert.deepEqual(
    tokens.map(
      ({ username, delegatedFrom }: { username: string; delegatedFrom: string | null }) => [
        username,
        delegatedFrom,
      ],
    ),
    [
      ['ada', null],
      ['ada', null],
    ],
  )
  const end = (id: string) => here.post(`/-/tokens/delegated/${id}/delete`, {})
  const ofSessions = body.filter(({ name }: { name: string }) => name === 'login')
  assert.equal(ofSessions.length, 2)
  for (const { id } of ofSessions) assert.equal((await end(id)).status, 404)
  assert.equal((await end(tokens[0].id)).status, 303)
  const left = (await here.get('/-/tokens')).text
  assert.equal(left.match(/row-title">svc login on /g)?.length, 1)
})
