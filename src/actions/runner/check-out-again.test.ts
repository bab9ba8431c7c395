import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toPackedRefs } from './check-out.ts'

const [own, other] = ['a'.repeat(40), 'b'.repeat(40)]

test('branches are those of the origin, and that of the run is at its commit', () => {
  const refs = {
    'refs/heads/main': other,
    'refs/heads/x/refs/heads/y': other,
    'refs/tags/v1': other,
  }
  const packed = toPackedRefs({ commit: own, ref: 'refs/heads/main', refs, shallow: [] })
  assert.equal(
    packed,
    [
      `${own} refs/remotes/origin/main`,
      `${other} refs/remotes/origin/x/refs/heads/y`,
      `${other} refs/tags/v1`,
      `${own} refs/heads/main`,
      '',
    ].join('\n'),
  )
})

test('a tag is there, also when it is not among those that were fetched', () => {
  const commits = { commit: own, shallow: [own] }
  assert.equal(toPackedRefs({ ...commits, ref: 'refs/tags/v1', refs: {} }), `${own} refs/tags/v1\n`)
  const refs = { 'refs/tags/v1': other }
  assert.equal(toPackedRefs({ ...commits, ref: 'refs/tags/v1', refs }), `${other} refs/tags/v1\n`)
  assert.equal(toPackedRefs({ ...commits, ref: '', refs: {} }), '')
})
