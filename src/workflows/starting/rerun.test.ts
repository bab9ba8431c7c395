import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RunJobRow } from '#database/schema.ts'
import { reusedJobs } from './rerun.ts'

const text = `
jobs:
  build: { steps: [{ run: x }] }
  test: { needs: build, steps: [{ run: x }] }
  report: { needs: test, if: always(), steps: [{ run: x }] }
  lint: { steps: [{ run: x }] }
`

test('jobs that succeeded are reused, unless one that they need failed, directly or not', async () => {
  assert.deepEqual(await reusedOf({ build: 'success', test: 'failure', lint: 'success' }), [
    'build',
    'lint',
  ])
  const all = { build: 'failure', test: 'skipped', report: 'success', lint: 'success' } as const
  assert.deepEqual(await reusedOf(all), ['lint'])
  assert.deepEqual(await reusedOf({ ...all, build: 'cancelled' }), ['lint'])
  assert.deepEqual(await reusedOf({ build: 'success', test: 'success', report: 'success' }), [
    'build',
    'test',
    'report',
  ])
})

test('a call is run again as a whole, and so are the jobs that need it', async () => {
  const calls = `
jobs:
  build: { uses: ./.github/workflows/x.yml }
  test: { needs: build, if: always(), steps: [{ run: x }] }
  other: { uses: ./.github/workflows/x.yml }
`
  const conclusions = {
    'build/a': 'success',
    'build/b': 'failure',
    'other/a': 'success',
    test: 'success',
  } as const
  assert.deepEqual(await reusedOf(conclusions, calls), ['other/a'])
})

async function reusedOf(conclusions: Record<string, RunJobRow['conclusion']>, file = text) {
  const rows = Object.entries(conclusions).map(([jobId, conclusion]) => ({
    ...{ file: 'ci.yml', jobId, name: jobId, matrix: null, conclusion, outputs: '{}' },
  }))
  // Only the columns that the decision reads.
  const jobs = reusedJobs([{ path: 'ci.yml', text: file }], rows as unknown as RunJobRow[])
  return jobs.map(({ id }) => id)
}
