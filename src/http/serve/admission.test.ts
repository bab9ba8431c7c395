import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Principal } from '#access/principal.ts'
import { Problem } from '#base/problem.ts'
import { createAdmission } from './admission.ts'

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
