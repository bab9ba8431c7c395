import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { changePackedRefs, writePackedRefs } from './packed-refs-file.ts'
import type { StoredRef } from './stored-repository-store.ts'

const id = (digit: number) => String(digit).repeat(40)
const name = fc
  .array(fc.constantFrom('a', 'b', 'ab', 'é', '😀', '~'), { minLength: 1, maxLength: 3 })
  .map((parts) => `refs/heads/${parts.join('/')}`)
const value = fc.record({
  objectId: fc.integer({ min: 0, max: 9 }).map(id),
  peeledId: fc.option(fc.integer({ min: 0, max: 9 }).map(id)),
})
type Value = { objectId: string; peeledId: string | null }

test('changing some refs gives the file that has all refs', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'svc-test-'))
  const read = () => readFile(join(directory, 'packed-refs'), 'utf8')
  const refs = fc.dictionary(name, value, { maxKeys: 12 })
  const changes = fc.dictionary(name, fc.option(value, { nil: undefined }), { maxKeys: 12 })
  const property = fc.asyncProperty(refs, changes, async (before, changed) => {
    await writePackedRefs(directory, toRefs(before))
    await changePackedRefs(directory, new Map(Object.entries(changed)))
    const actual = await read()
    await writePackedRefs(directory, toRefs({ ...before, ...changed }))
    assert.equal(actual, await read())
  })
  await fc.assert(property, { numRuns: 300 })
  await rm(directory, { recursive: true })
})

/** The refs in the order of their bytes, as PostgreSQL lists them. */
function toRefs(values: Record<string, Value | undefined>): StoredRef[] {
  return Object.entries(values)
    .flatMap(([ref, found]): StoredRef[] => (found ? [[ref, found.objectId, found.peeledId]] : []))
    .sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
}
