import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { newTokenString } from '#base/token-string.ts'
import type { Setting } from './setting.ts'
import { readSettings, SettingsError } from './settings.ts'
import { settings } from './settings-table.ts'

const all = Object.entries<Setting<unknown>>(settings)

test('with nothing set, every default is one that its setting accepts', () => {
  const read: Record<string, unknown> = readSettings({})
  for (const [key, { fallback, unset = '' }] of all) {
    assert.equal(read[key] === undefined, fallback === unset, key)
  }
  assert.equal(read.pushMaxBytes, 2 * 1024 ** 3)
})

test('every setting rejects invalid values by the name of its variable, with the accepted form', () => {
  for (const [, { variable, accepts, sensitive }] of all) {
    const nonsense = 'no\0n sense'
    assert.throws(
      () => readSettings({ [variable]: nonsense }),
      (error) => {
        assert.ok(error instanceof SettingsError)
        assert.ok(error.message.startsWith(`${variable}: `), error.message)
        assert.ok(error.message.endsWith(`it takes ${accepts}.`), error.message)
        assert.equal(error.message.includes('sense'), !sensitive)
        assert.ok(!error.message.includes('\n'))
        return true
      },
    )
  }
})

test('an identity provider is read over https, or on this machine, and needs the id of a client', () => {
  const read = (issuer: string) =>
    readSettings({ SVC_OIDC_ISSUER: issuer, SVC_OIDC_CLIENT_ID: 'svc' }).oidcIssuer
  for (const issuer of ['https://id.example/realms/a', 'http://127.0.0.1:8000', 'http://[::1]/'])
    assert.equal(read(issuer), issuer)
  for (const issuer of ['http://id.example', 'https://a:b@id.example', 'https://id.example/?a=b'])
    assert.throws(() => read(issuer), /^SettingsError: SVC_OIDC_ISSUER: /)
  assert.throws(
    () => readSettings({ SVC_OIDC_ISSUER: 'https://id.example' }),
    /^SettingsError: SVC_OIDC_CLIENT_ID: it is needed/,
  )
})

test('hosts for steps beside the whole network are an error', () => {
  assert.throws(
    () => readSettings({ SVC_STEP_HOSTS: '*', SVC_SANDBOX_NETWORK: 'full' }),
    (error) => error instanceof SettingsError && /^SVC_STEP_HOSTS: .*unset one/.test(error.message),
  )
  assert.equal(
    readSettings({ SVC_STEP_HOSTS: 'none', SVC_SANDBOX_NETWORK: 'full' }).stepHosts,
    undefined,
  )
})

test('all invalid settings are reported at once, one line each', () => {
  assert.throws(
    () => readSettings({ SVC_PORT: '70000', SVC_PUSH_MAX: '2GB', SVC_LOG_LEVEL: 'loud' }),
    (error) => error instanceof SettingsError && error.message.split('\n').length === 3,
  )
})

test('values are parsed in their units', () => {
  const token = newTokenString()
  const read = readSettings({
    SVC_PORT: '0',
    SVC_PUSH_MAX: '512MiB',
    SVC_JSON_BODY_MAX: '2048',
    SVC_BASE_URL: 'https://git.example.com/svc/',
    SVC_ADMIN_TOKEN: token,
    SVC_DATABASE_URL: 'postgres://svc:hush@db/svc',
    SVC_HOST: '',
  })
  assert.equal(read.port, 0)
  assert.equal(read.pushMaxBytes, 512 * 1024 ** 2)
  assert.equal(read.jsonBodyMaxBytes, 2048)
  assert.equal(read.baseUrl, 'https://git.example.com/svc')
  assert.equal(read.host, '127.0.0.1')
  assert.ok(!/hush|svc_/.test(inspect(read) + JSON.stringify(read) + String(read.adminToken)))
  assert.equal(read.adminToken?.reveal(), token)
})

test('variables for steps are a JSON object of strings, with names that do not identify a run', () => {
  const read = (text: string) => readSettings({ SVC_STEP_ENV: text }).stepEnv
  assert.deepEqual(read('{"GOPROXY":"https://a.example,direct","A_1":""}'), {
    GOPROXY: 'https://a.example,direct',
    A_1: '',
  })
  for (const text of [
    '["A"]',
    'null',
    '"A=1"',
    '{"A":1}',
    '{"A":"\\u0000"}',
    '{"A B":"1"}',
    '{"1A":"1"}',
    '{"GITHUB_SHA":"1"}',
    '{"Svc_Run_Id":"1"}',
    '{"RUNNER_TEMP":"/"}',
    '{"ACTIONS_X":"1"}',
  ]) {
    assert.throws(() => read(text), /SVC_STEP_ENV: .*it takes a JSON object of strings/, text)
  }
})

test('an invalid entry of the outbound list is named, with the accepted forms', () => {
  const outboundAllow = readSettings({
    SVC_OUTBOUND_ALLOW: 'private, git.example.com',
  }).outboundAllow
  assert.deepEqual(outboundAllow, { classes: ['private'], ranges: [], names: ['git.example.com'] })
  assert.throws(
    () => readSettings({ SVC_OUTBOUND_ALLOW: 'external,10.0.0.0/33' }),
    new SettingsError(
      'SVC_OUTBOUND_ALLOW: "10.0.0.0/33" has a prefix longer than 32 bits; it takes hosts, IP addresses, ' +
        'CIDRs and the words external, private and loopback, separated by commas; or none.',
    ),
  )
})

test('an address with a user, a query or another scheme is not a base URL', () => {
  for (const url of [
    'ftp://x',
    'http://a:b@c',
    'http://a?b',
    'http://a#b',
    'example.com',
    'javascript:x',
  ]) {
    assert.throws(() => readSettings({ SVC_BASE_URL: url }), SettingsError, url)
  }
})

test('switches take on and off, and true and false', () => {
  for (const [variable, key] of [
    ['SVC_PAGES', 'pages'],
    ['SVC_RUNNER', 'runner'],
  ] as const) {
    for (const [text, value] of Object.entries({ on: true, true: true, off: false, false: false }))
      assert.equal(readSettings({ [variable]: text })[key], value, `${variable}=${text}`)
    for (const text of ['toString', '__proto__', 'ON'])
      assert.throws(() => readSettings({ [variable]: text }), SettingsError, text)
  }
  assert.throws(() => readSettings({ SVC_SSH_ANONYMOUS_READ: 'on' }), SettingsError)
})
