import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toStepPath } from './runner-configuration.ts'

const path = '/home/ada/bin:/usr/bin:relative::/opt/node/bin:/tools/bin:/usr-own/bin'
const usual = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

test('steps in a sandbox have a PATH of visible directories', () => {
  const found = toStepPath({ path, isolation: 'bubblewrap', readOnlyPaths: ['/tools'] })
  assert.equal(
    found,
    '/usr/bin:/opt/node/bin:/tools/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin',
  )
})

test('steps without a sandbox have the PATH of the runner', () => {
  const found = toStepPath({ path: '/home/ada/bin:relative', isolation: 'none', readOnlyPaths: [] })
  assert.equal(found, `/home/ada/bin:${usual}`)
})
