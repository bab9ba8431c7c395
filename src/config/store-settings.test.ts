import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { readSettings, SettingsError } from './settings.ts'

const others = {
  SVC_ENCRYPTION_KEY: Buffer.alloc(32, 1).toString('base64'),
  SVC_DATABASE_URL: 'postgres://db/svc',
  SVC_SSH_PORT: 'off',
  SVC_STORE_ACCESS_KEY_ID: 'AKIAEXAMPLE',
  SVC_STORE_SECRET_ACCESS_KEY: 'hush/hush+hush=',
}
const addressOf = (SVC_STORE: string) => readSettings({ ...others, SVC_STORE }).store

test('without an address, or with the word local, repositories are in the data directory', () => {
  assert.equal(addressOf('local'), undefined)
  assert.equal(readSettings({ SVC_STORE: 'local' }).store, undefined)
  assert.equal(addressOf(''), undefined)
})

test('an address of a store has a bucket, a prefix, an endpoint and a region', () => {
  assert.deepEqual(addressOf('s3://svc-data/team/git/?endpoint=http://10.0.0.7:9000&region=here'), {
    endpoint: 'http://10.0.0.7:9000',
    region: 'here',
    bucket: 'svc-data',
    prefix: 'team/git',
  })
  assert.deepEqual(addressOf('s3://svc-data?endpoint=https://s3.example.com/'), {
    endpoint: 'https://s3.example.com',
    region: 'us-east-1',
    bucket: 'svc-data',
    prefix: '',
  })
  assert.deepEqual(addressOf('s3://svc-data/?region=eu-central-1'), {
    endpoint: 'https://s3.eu-central-1.amazonaws.com',
    region: 'eu-central-1',
    bucket: 'svc-data',
    prefix: '',
  })
})

test('an address that is not accepted says why', () => {
  const endpoint = 'endpoint=http://s3.example.com'
  const cases: [string, RegExp][] = [
    ['/srv/store', /"\/srv\/store" is not accepted/],
    ['s3://svc data', /"s3:\/\/svc data" is not accepted/],
    [`s3:///prefix?${endpoint}`, /"" is not the name of a bucket/],
    [`s3://Svc_Data?${endpoint}`, /"Svc_Data" is not the name of a bucket/],
    [`s3://svc-data:9000?${endpoint}`, /"svc-data:9000" is not the name of a bucket/],
    [`s3://svc-data/a%20b?${endpoint}`, /its prefix has other characters/],
    [`s3://svc-data/a//b?${endpoint}`, /its prefix has other characters/],
    [`s3://svc-data?${endpoint}#main`, /it has a fragment/],
    [`s3://svc-data?${endpoint}&regoin=here`, /"regoin" is not one of its parameters/],
    [`s3://svc-data?${endpoint}&${endpoint}`, /it has several values of "endpoint"/],
    ['s3://svc-data', /it has neither an endpoint nor a region/],
    ['s3://svc-data?endpoint=s3.example.com', /its endpoint is not an http or https address/],
    [`s3://svc-data?${endpoint}/path`, /its endpoint is not an http or https address/],
    [`s3://svc-data?region=`, /its region is not a name/],
  ]
  for (const [text, reason] of cases) {
    assert.throws(
      () => addressOf(text),
      (error) => {
        assert.ok(error instanceof SettingsError)
        assert.match(error.message, reason)
        assert.match(
          error.message,
          /^SVC_STORE: [^\n]*; it takes local, or s3:\/\/bucket\/prefix\?endpoint=/,
        )
        return true
      },
    )
  }
})

test('credentials are accepted in their own settings only, and never shown', () => {
  for (const text of ['s3://AKIA:hush@svc-data?region=here', 's3://AKIA:hu/sh@svc-data']) {
    assert.throws(
      () => addressOf(text),
      (error) =>
        error instanceof SettingsError &&
        /belong in SVC_STORE_ACCESS_KEY_ID/.test(error.message) &&
        !/AKIA|hu\/?sh/.test(error.message),
    )
  }
  const read = readSettings(others)
  assert.ok(!/hush|AKIA/.test(inspect(read) + JSON.stringify(read)))
  assert.equal(read.storeSecretAccessKey?.reveal(), others.SVC_STORE_SECRET_ACCESS_KEY)
})

test('a store needs a database and credentials', () => {
  assert.throws(
    () => readSettings({ SVC_STORE: 's3://svc-data?region=here' }),
    new SettingsError(
      'SVC_STORE: it also needs SVC_DATABASE_URL: refs and small pushes are in PostgreSQL.\n' +
        'SVC_STORE: it also needs SVC_STORE_ACCESS_KEY_ID.\n' +
        'SVC_STORE: it also needs SVC_STORE_SECRET_ACCESS_KEY.\n' +
        'SVC_STORE: it also needs SVC_ENCRYPTION_KEY or SVC_ENCRYPTION_KEY_FILE: all servers must have the same key.\n' +
        'SVC_STORE: it also needs SVC_SSH_HOST_KEY_FILE: all servers must have the same key; or SVC_SSH_PORT=off.',
    ),
  )
})

test('a refused value is not missing as well', () => {
  assert.throws(
    () =>
      readSettings({
        ...others,
        SVC_STORE: 's3://svc-data?region=here',
        SVC_ENCRYPTION_KEY: 'short',
      }),
    (error: Error) => !/also needs/.test(error.message),
  )
})
