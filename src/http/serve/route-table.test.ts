import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRouteTable } from './route-table.ts'

const find = createRouteTable([
  { method: 'GET', path: '/' },
  { method: 'GET', path: '/repos' },
  { method: 'POST', path: '/repos/import' },
  { method: 'GET', path: '/repos/:name' },
  { method: 'DELETE', path: '/repos/:name' },
  { method: 'GET', path: '/repos/:name/protections/:ref*' },
  { method: 'GET', path: '/repos/:repository/info/refs' },
])

function found(path: string) {
  const address = find(path)
  return address && { methods: [...address.byMethod.keys()], params: address.params }
}

test('finds constants, parameters and the rest of a path, decoded', () => {
  assert.deepEqual(found('/'), { methods: ['GET'], params: {} })
  assert.deepEqual(found('/repos'), { methods: ['GET'], params: {} })
  assert.deepEqual(found('/repos/caf%C3%A9'), {
    methods: ['GET', 'DELETE'],
    params: { name: 'café' },
  })
  assert.deepEqual(found('/repos/site/protections/refs/heads/a%2Fb'), {
    methods: ['GET'],
    params: { name: 'site', ref: 'refs/heads/a/b' },
  })
  assert.equal(found('/repos/site/protections/')?.params.ref, '')
  assert.deepEqual(found('/repos/site.git/info/refs')?.params, { repository: 'site.git' })
})

test('a constant precedes a parameter, also if it has other methods', () => {
  assert.deepEqual(found('/repos/import'), { methods: ['POST'], params: {} })
  // The constant leads nowhere here.
  assert.deepEqual(found('/repos/import/info/refs')?.params, { repository: 'import' })
})

test('no segment is empty, and nothing else is at an address', () => {
  for (const path of [
    '',
    '*',
    'repos',
    '/repos/',
    '//',
    '/repos//info/refs',
    '/repos/site/',
    '/repos/site/protections',
    '/repos/site/info',
    '/Repos',
    '/repos/%E0%A4%A',
    '/__proto__',
    '/repos/site/constructor',
  ])
    assert.equal(find(path), undefined, path)
})

test('a path of many segments costs no more than its length', () => {
  assert.equal(find('/'.repeat(1_000_000)), undefined)
})

test('refuses routes that cannot both be found', () => {
  const route = { method: 'GET', path: '/repos/:name' }
  assert.throws(() => createRouteTable([route, route]), /two routes GET \/repos\/:name/)
  assert.throws(
    () => createRouteTable([route, { method: 'PUT', path: '/repos/:repository' }]),
    /differently/,
  )
})
