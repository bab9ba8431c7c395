import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventKinds } from '#events/events.ts'
import { renderSentence, toSentence } from './event-sentences.ts'
import { createLinks } from './links.ts'

const to = createLinks('')
const actor = { id: '1', username: 'ada' }
const base = { seq: 1, repositoryId: '1', repoName: 'site', actor, createdAt: 0 }
const textOf = (event: object) =>
  toSentence(Object.assign({ ...base, kind: 'push' as const, data: {} }, event), to)
    .parts.map((part) => (typeof part === 'string' ? part : part.text))
    .join('')

const [zero, one, two] = ['0'.repeat(40), '1'.repeat(40), '2'.repeat(40)]

test('pushes are described by what they did to the ref', () => {
  const push = { ref: 'refs/heads/main', pushId: 'p', via: 'http', forced: false }
  const of = (data: object) => textOf({ data: { ...push, ...data } })
  assert.equal(of({ before: one, after: two }), 'ada pushed to main of site')
  assert.equal(of({ before: one, after: two, forced: true }), 'ada force-pushed to main of site')
  assert.equal(of({ before: zero, after: two }), 'ada created main of site')
  assert.equal(of({ before: one, after: zero }), 'ada deleted main of site')
  assert.equal(of({ before: one, after: two, via: 'undo' }), 'ada undid a push to main of site')
})

test('runs are described by their state', () => {
  const data = { action: 'completed', number: 7, attempt: 2, conclusion: 'failure', name: 'CI' }
  assert.equal(textOf({ kind: 'workflow', data }), 'Run 7 of site, attempt 2, failed: CI')
})

test('every kind has a sentence, also without its repository', () => {
  const data = {
    findings: [],
    changed: [],
    target: 'refs/heads/x',
    name: 'a<b',
    username: 'eve',
    commit: two,
  }
  for (const kind of eventKinds) {
    for (const repoName of ['site', null]) {
      const sentence = toSentence(
        { ...base, kind, repoName, data: { ...data, ref: 'r', before: one, after: two } },
        to,
      )
      const { text } = renderSentence(sentence)
      assert.ok(text.length > 10, kind)
      assert.doesNotMatch(text, /a<b|href="undefined/)
      if (repoName === null) assert.doesNotMatch(text, /href=/)
    }
  }
})
