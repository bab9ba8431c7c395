import { createTimeSlices } from '../base/time-slices.ts'
import { gitCommands } from '../git/process/commands.ts'
import type { RefCache } from '../git/refs/ref-cache.ts'
import { zeroId } from '../git/refs/ref-name.ts'
import { noTags } from '../git/refs/ref-snapshot.ts'
import { readRefs } from '../git/refs/refs.ts'
import type { Asker, GitTasks } from './git-tasks.ts'

/** A ref; its name is raw (latin1), without the prefix. */
type ListedRef = { name: string; id: string }

export type RefPage = { refs: ListedRef[]; hasMore: boolean }

type Wanted = {
  /** `refs/heads/` or `refs/tags/`. */
  prefix: string
  /** The raw name after which the page starts. */
  after: string
  limit: number
}

const lengthDigits = 4
const idLength = 40
const refsPerCheck = 1000

const listed = { style: 'plain', symrefs: false, peeled: noTags } as const

/** Lists refs by name, from memory where that is possible. */
export function createRefPages({ refCache, tasks }: { refCache: RefCache; tasks: GitTasks }) {
  return {
    async page(asker: Asker, wanted: Wanted): Promise<RefPage> {
      const snapshot = await refCache.of(asker.repository.path)
      if (!snapshot) return readFromGit(tasks, asker, wanted)
      const chunks = await snapshot.lines({ ...listed, prefixes: [wanted.prefix] })
      return readFromLines(chunks, wanted)
    },

    /** Those of some raw names that exist below a prefix. */
    async existing(path: string, prefix: string, names: readonly string[]): Promise<Set<string>> {
      const all = names.map((name) => prefix + name)
      const snapshot = await refCache.of(path)
      if (!snapshot) {
        const values = await readRefs(path, all)
        return new Set(names.filter((name) => (values.get(prefix + name) ?? zeroId) !== zeroId))
      }
      const chunks = await snapshot.lines({ ...listed, prefixes: all })
      const wanted = { prefix, after: '', limit: Number.POSITIVE_INFINITY }
      const { refs } = await readFromLines(chunks, wanted)
      return new Set(refs.map(({ name }) => name)).intersection(new Set(names))
    },
  }
}

/** Refs as pkt-lines, sorted by name: gitprotocol-common. */
async function readFromLines(
  chunks: readonly Buffer[],
  { prefix, after, limit }: Wanted,
): Promise<RefPage> {
  const nameAt = lengthDigits + idLength + 1 + prefix.length
  const last = Buffer.from(after, 'latin1')
  const slices = createTimeSlices()
  const refs: ListedRef[] = []
  let count = 0
  for (const chunk of chunks) {
    for (let at = 0; at < chunk.length; ) {
      if (count++ % refsPerCheck === 0) await slices.rest()
      const end = at + Number.parseInt(chunk.toString('latin1', at, at + lengthDigits), 16)
      if (!(end > at + nameAt)) throw new Error('a ref without a name')
      const isAfter = after === '' || chunk.compare(last, 0, last.length, at + nameAt, end - 1) > 0
      if (isAfter && refs.length === limit) return { refs, hasMore: true }
      if (isAfter) {
        const id = chunk.toString('latin1', at + lengthDigits, at + lengthDigits + idLength)
        refs.push({ id, name: chunk.toString('latin1', at + nameAt, end - 1) })
      }
      at = end
    }
  }
  return { refs, hasMore: false }
}

/** For repositories with more refs than the memory for them, or with files that only git reads. */
async function readFromGit(
  tasks: GitTasks,
  asker: Asker,
  { prefix, after, limit }: Wanted,
): Promise<RefPage> {
  const command = gitCommands.listRefs(asker.repository.path, prefix)
  return tasks.run(asker, {
    command,
    async read(output) {
      const refs: ListedRef[] = []
      let rest = ''
      for await (const chunk of output) {
        const lines = (rest + chunk.toString('latin1')).split('\n')
        rest = lines.pop() ?? ''
        for (const line of lines) {
          const name = line.slice(idLength + 1 + prefix.length)
          // Names are bytes, and so are these characters.
          if (after !== '' && name <= after) continue
          if (refs.length === limit) return { refs, hasMore: true }
          refs.push({ id: line.slice(0, idLength), name })
        }
      }
      return { refs, hasMore: false }
    },
  })
}
