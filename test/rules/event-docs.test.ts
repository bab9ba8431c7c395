import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { audiences } from '#api/event-log/event-visibility.ts'
import { eventKinds } from '#events/events.ts'
import { sampleData } from '../support/event-kinds.ts'

const page = readFileSync(fileURLToPath(new URL('../../docs/events.md', import.meta.url)), 'utf8')
const rows = page
  .split('\n')
  .map((line) => /^\| `([\w.]+)` \| (.+?) \| (.+) \|$/.exec(line)?.slice(1) ?? [])
  .filter(([, needs, data]) => needs !== undefined && data !== undefined)

test('docs/events.md lists every kind of event, in order, with its audience', () => {
  assert.deepEqual(
    rows.map(([kind]) => kind),
    [...eventKinds],
  )
  for (const kind of eventKinds) {
    const audience = audiences[kind]
    const needs = {
      member: 'permission' in audience ? `\`${audience.permission}\`` : '',
      maintainer: 'permission' in audience ? `\`${audience.permission}\`, maintainer` : '',
      owner: 'permission' in audience ? `\`${audience.permission}\`, owner` : '',
      username: "one's own",
      admin: 'admin',
    }[audience.of]
    assert.equal(rows.find(([name]) => name === kind)?.[1], needs, kind)
  }
})

test('docs/events.md names every field of the data of each kind', () => {
  for (const kind of eventKinds) {
    const [, , documented = ''] = rows.find(([name]) => name === kind) ?? []
    for (const field of Object.keys(sampleData[kind]))
      assert.ok(documented.includes(`\`${field}\``), `${kind}: ${field}`)
  }
})
