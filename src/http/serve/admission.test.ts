import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Principal } from '#access/principal.ts'
import { Problem } from '#base/problem.ts'
import { createAdmission } from './admission.ts'

test('requests without a token are limited by their address, before anything is looked for', async () => {
  let finds = 0
  const { admit } = createAdmission({
    settings: { badTokensPerMinute: 1, requestsPerSecond: 1, requestBurst: 2 },
    authenticate: async () => undefined,
    clock: { now: () => 0 },
  })
  const request = (address: string, allowsKeys: boolean) =>
    admit(
      { headers: {} },
      { address, principal: undefined },
      {
        scheme: 'basic-or-bearer',
        permission: () => 'repo:read',
        find: async () => ++finds,
        params: {},
        allowsLimited: false,
        allowsAnonymous: true,
        allowsKeys,
        isRateLimited: false,
        via: 'http',
      },
    )
  const problem = (code: string) => (error: unknown) =>
    error instanceof Problem && error.code === code && error.retryAfterSeconds === 1
  for (const allowsKeys of [false, true]) await request('192.0.2.1', allowsKeys)
  await assert.rejects(request('192.0.2.1', false), problem('token_required'))
  await assert.rejects(request('192.0.2.1', true), problem('too_many_requests'))
  await request('192.0.2.2', false)
  assert.equal(finds, 3)
})

test('the rate of requests is that of a user, over all tokens', async () => {
  const { admit } = createAdmission({
    settings: { badTokensPerMinute: 1, requestsPerSecond: 1, requestBurst: 3 },
    authenticate: async (token): Promise<Principal> => {
      const [username = '', id = ''] = token.split('.')
      return { kind: 'token', id, username, permissions: new Set() }
    },
    clock: { now: () => 0 },
  })
  const request = (token: string) =>
    admit(
      { headers: { authorization: `Bearer ${token}` } },
      { address: '192.0.2.1', principal: undefined },
      {
        scheme: 'bearer',
        permission: () => undefined,
        find: undefined,
        params: {},
        allowsLimited: true,
        isRateLimited: true,
        via: 'api',
      },
    )
  for (const id of ['1', '2', '3']) await request(`ada.${id}`)
  await assert.rejects(
    request('ada.4'),
    (error) => error instanceof Problem && error.code === 'too_many_requests',
  )
  await request('grace.5')
})
