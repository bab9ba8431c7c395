import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { idBytes, type ObjectFormat } from '#base/object-id.ts'
import { toRounds } from '../../../test/support/rounds.ts'
import { changedNames, entryAt, entryCount, toTreeBuffer } from './tree-buffer.ts'

type Entry = { mode: string; name: string; id: number }

// Names that are the starts of others, since a folder is sorted as if its name ended with a slash.
const names = ['a', 'a-b', 'a.b', 'a0', 'ab', 'abc', 'b', 'b b', 'ü', '\ud83d\ude00']
const modes = ['100644', '100664', '100755', '120000', '40000', '040000', '160000']

const formats = fc.constantFrom<ObjectFormat[]>('sha1', 'sha256')
const entries = fc.uniqueArray(
  fc.record({
    name: fc.constantFrom(...names),
    mode: fc.constantFrom(...modes),
    id: fc.nat({ max: 2 }),
  }),
  { selector: ({ name }) => name },
)

function toContent(list: readonly Entry[], format: ObjectFormat): Buffer {
  const keyOf = ({ name, mode }: Entry) => Buffer.from(/^0?4/.test(mode) ? `${name}/` : name)
  const sorted = list.toSorted((one, other) => keyOf(one).compare(keyOf(other)))
  return Buffer.concat(
    sorted.flatMap(({ mode, name, id }) => [
      Buffer.from(`${mode} ${name}\0`),
      Buffer.alloc(idBytes(format), id),
    ]),
  )
}

test('the changed entries of a tree are those with another mode or id, or without one', async () => {
  await fc.assert(
    fc.asyncProperty(formats, entries, entries, async (format, list, otherList) => {
      const tree = await toTreeBuffer(toContent(list, format), format)
      const other = await toTreeBuffer(toContent(otherList, format), format)
      const read = (of: typeof tree) =>
        Array.from({ length: entryCount(of) }, (_, index) => entryAt(of, index))
      const before = new Map(read(other).map(({ name, mode, id }) => [name, mode + id]))
      const expected = read(tree)
        .filter(({ name, mode, id }) => before.get(name) !== mode + id)
        .map(({ name }) => name)
      assert.deepEqual(changedNames(tree, other), expected)
    }),
    { numRuns: toRounds(1000) },
  )
})
