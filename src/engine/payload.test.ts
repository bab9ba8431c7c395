import assert from 'node:assert/strict'
import { test } from 'node:test'
import { dispatchPayload, pushPayload } from './payload.ts'

const about = {
  repository: { id: 'r1', name: 'site', ownerUsername: 'ada', defaultBranch: 'trunk' },
  sender: 'grace',
  baseUrl: 'http://svc.test',
}
const person = { name: 'Ada', email: 'ada@svc.test', at: '2026-01-02T03:04:05.000Z' }
const update = { ref: 'refs/heads/main', before: '0'.repeat(40), after: 'a'.repeat(40) }

test('a push has its head commit, which is the one of its commits that is told', () => {
  const head = { id: update.after, message: 'Add it', author: person, committer: person }
  const payload = pushPayload(update, head, about)
  const commit = {
    id: update.after,
    message: 'Add it',
    timestamp: person.at,
    url: `http://svc.test/repos/site/commit/${update.after}`,
    author: { name: 'Ada', email: 'ada@svc.test' },
    committer: { name: 'Ada', email: 'ada@svc.test' },
  }
  assert.deepEqual([payload.head_commit, payload.commits], [commit, [commit]])
  assert.deepEqual([payload.created, payload.deleted, payload.forced], [true, false, false])
  assert.equal(
    payload.compare,
    `http://svc.test/repos/site/compare/${update.before}...${update.after}`,
  )
  assert.deepEqual(payload.pusher, { name: 'grace' })
  assert.equal(Object(payload.repository).default_branch, 'trunk')
  const without = pushPayload({ ...update, before: 'b'.repeat(40) }, undefined, about)
  assert.deepEqual([without.head_commit, without.commits, without.created], [null, [], false])
})

test('the inputs of a dispatch are texts', () => {
  const { inputs } = dispatchPayload('refs/heads/main', { count: 3, dry: false, to: 'x' }, about)
  assert.deepEqual(inputs, { count: '3', dry: 'false', to: 'x' })
})
