import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toRepository } from './check-out.ts'

const commit = 'a'.repeat(40)
const plan = {
  repository: { name: 'site', owner: 'ada', defaultBranch: 'main' },
  serverUrl: 'https://git.example',
  commit,
  files: '/svc',
}

test('a branch is checked out by its name, beside that of its origin', () => {
  const { head, packedRefs, config } = toRepository({ ...plan, ref: 'refs/heads/feature/a' })
  assert.equal(head, 'ref: refs/heads/feature/a\n')
  assert.equal(
    packedRefs,
    `${commit} refs/heads/feature/a\n${commit} refs/remotes/origin/feature/a\n`,
  )
  assert.match(config, /^\turl = "https:\/\/git\.example\/repos\/site\.git"$/m)
  assert.match(
    config,
    /^\[branch "feature\/a"\]\n\tremote = origin\n\tmerge = "refs\/heads\/feature\/a"$/m,
  )
})

test('a tag is there, and the head is detached', () => {
  const { head, packedRefs } = toRepository({ ...plan, ref: 'refs/tags/v1' })
  assert.equal(head, `${commit}\n`)
  assert.equal(packedRefs, `${commit} refs/tags/v1\n`)
  const object = 'b'.repeat(40)
  const annotated = toRepository({ ...plan, ref: 'refs/tags/v1', object })
  assert.equal(annotated.head, `${commit}\n`)
  assert.equal(annotated.packedRefs, `${object} refs/tags/v1\n`)
})

test('an address cannot add settings', () => {
  const repository = { ...plan.repository, name: 'a"\\b' }
  const { config } = toRepository({ ...plan, ref: 'refs/heads/main', repository })
  assert.match(config, /^\turl = "https:\/\/git\.example\/repos\/a\\"\\\\b\.git"$/m)
})
