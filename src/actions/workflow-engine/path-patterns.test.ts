import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commonFolder, readPathPatterns } from './path-patterns.ts'

const inside = { workspace: '/workspace', home: '/home/runner', temp: '/tmp', files: '/svc' }
const read = (text: string) => readPathPatterns(text, inside)

test('paths are relative to the workspace, and ~ is the home', () => {
  const { starts, isLiteral } = read('dist/\n  ~/.npm\n# no\n\n/tmp/x\n./dist/../out')
  assert.deepEqual(starts, ['/workspace/dist', '/home/runner/.npm', '/tmp/x', '/workspace/out'])
  assert.equal(isLiteral, true)
})

test('places that steps cannot write to are left out', () => {
  const { starts, elsewhere } = read('/etc\n../other\n~root/x\n**/a\n/work*/b\n/svc/1-env')
  assert.deepEqual(starts, ['/workspace'])
  assert.deepEqual(elsewhere, ['/etc', '../other', '/work*/b', '/svc/1-env'])
})

test('patterns are absolute', () => {
  const { starts, isLiteral, rules } = read('**/node_modules\n!**/.cache\n~/*.log')
  assert.equal(isLiteral, false)
  assert.deepEqual(starts, ['/workspace', '/home/runner'])
  assert.deepEqual(rules, [
    '/workspace/**/node_modules',
    '!/workspace/**/.cache',
    '/home/runner/*.log',
  ])
})

test('a start within another one is part of it', () => {
  assert.deepEqual(read('a/b\na\nab').starts, ['/workspace/a', '/workspace/ab'])
})

test('too many paths are an error', () => {
  assert.throws(() => read('a\n'.repeat(201)), /more than 200/)
})

test('the common folder contains all', () => {
  assert.equal(commonFolder(['/a/b/c']), '/a/b/c')
  assert.equal(commonFolder(['/a/b/c', '/a/b/d']), '/a/b')
  assert.equal(commonFolder(['/a/b', '/a/bc']), '/a')
  assert.equal(commonFolder(['/a', '/b']), '/')
})
