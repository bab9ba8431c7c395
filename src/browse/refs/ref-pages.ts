import { createTimeSlices } from '#base/time-slices.ts'
import { gitCommands } from '#git/process/commands.ts'
import type { RefCache } from '#git/refs/ref-cache.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { noTags } from '#git/refs/ref-snapshot.ts'
import { readRefs } from '#git/refs/refs.ts'
import type { GitTasks, Requester } from '../git-tasks.ts'
import { createLineSplitter } from '../line-splitter.ts'
import { createRefSelection, type RefPage, type WantedRefs } from './ref-selection.ts'

type Wanted = WantedRefs & {
  /** `refs/heads/` or `refs/tags/`. */
  prefix: string
  /** Lists only the refs of these objects, and the annotated tags that lead to them. */
  pointsAt?: readonly string[] | undefined
}

const lengthDigits = 4
const refsPerCheck = 1000
const colon = 0x3a
// ` peeled:` before an id, and a line feed after it.
const peeledMarks = 9

const listed = { symrefs: false, peeled: noTags } as const

/** Lists refs, from memory where that is possible. */
export function createRefPages({ refCache, tasks }: { refCache: RefCache; tasks: GitTasks }) {
  return {
    async page(requester: Requester, wanted: Wanted): Promise<RefPage> {
      const { path } = requester.repository
      const { prefix, pointsAt } = wanted
      const snapshot = await refCache.of(path)
      if (!snapshot) return readFromGit(tasks, requester, wanted)
      const prefixes = [prefix]
      if (!pointsAt)
        return readFromLines(await snapshot.lines({ ...listed, style: 'plain', prefixes }), wanted)
      const peeled = await refCache.peeled(path, snapshot)
      if (!peeled) return readFromGit(tasks, requester, wanted)
      const chunks = await snapshot.lines({ style: 'peeled', symrefs: false, peeled, prefixes })
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
      const chunks = await snapshot.lines({ ...listed, style: 'plain', prefixes: all })
      const wanted = { prefix, after: '', limit: Number.POSITIVE_INFINITY }
      const { refs } = await readFromLines(chunks, wanted)
      return new Set(refs.map(({ name }) => name)).intersection(new Set(names))
    },
  }
}

/** Refs as pkt-lines, sorted by name, with the peeled values of tags if refs of some objects are wanted: gitprotocol-v2. */
async function readFromLines(chunks: readonly Buffer[], wanted: Wanted): Promise<RefPage> {
  const { prefix, after, order = 'name', pointsAt } = wanted
  const idLength = idLengthIn(chunks)
  const nameAt = lengthDigits + idLength + 1 + prefix.length
  // Refs before the page are skipped without making strings.
  const first = Buffer.from(order === 'name' ? after : '', 'latin1')
  const isOneOf = pointsAt && createIdMatcher(pointsAt, idLength)
  const slices = createTimeSlices()
  const selection = createRefSelection(wanted)
  let count = 0
  for (const chunk of chunks) {
    for (let at = 0, end = 0; at < chunk.length; at = end) {
      if (count++ % refsPerCheck === 0) await slices.rest()
      end = at + lengthAt(chunk, at)
      if (!(end > at + nameAt)) throw new Error('a ref without a name')
      // No name has a colon.
      const isPeeled = chunk[end - idLength - 2] === colon
      const nameEnd = end - (isPeeled ? peeledMarks + idLength : 1)
      const isWanted =
        !isOneOf ||
        isOneOf(chunk, at + lengthDigits) ||
        (isPeeled && isOneOf(chunk, end - idLength - 1))
      if (!isWanted) continue
      const isBefore =
        first.length > 0 && chunk.compare(first, 0, first.length, at + nameAt, nameEnd) <= 0
      if (isBefore) continue
      const id = chunk.toString('latin1', at + lengthDigits, at + lengthDigits + idLength)
      const name = chunk.toString('latin1', at + nameAt, nameEnd)
      if (selection.add({ id, name })) return selection.page()
    }
  }
  return selection.page()
}

/** The length of the ids in refs, after which the first space is. */
function idLengthIn(chunks: readonly Buffer[]): number {
  const first = chunks.find(({ length }) => length > 0)
  return first ? first.indexOf(' ') - lengthDigits : 0
}

/** The length of a pkt-line, from its hexadecimal digits. */
function lengthAt(chunk: Buffer, at: number): number {
  let length = 0
  for (let digit = at; digit < at + lengthDigits; digit++) {
    const byte = chunk[digit] ?? 0
    length = length * 16 + byte - (byte < 0x3a ? 0x30 : 0x57)
  }
  return length
}

/** Finds ids among bytes without making a string for each position. */
function createIdMatcher(
  ids: readonly string[],
  idLength: number,
): (bytes: Buffer, at: number) => boolean {
  const known = new Set(ids)
  const starts = new Set(ids.map((id) => Buffer.from(id, 'latin1').readUInt32LE()))
  return (bytes, at) =>
    starts.has(bytes.readUInt32LE(at)) && known.has(bytes.toString('latin1', at, at + idLength))
}

/**
 * For repositories with more refs than the memory for them, or with files that only git reads. Older versions of git do not
 * find tags of tags of an object.
 */
async function readFromGit(
  tasks: GitTasks,
  requester: Requester,
  wanted: Wanted,
): Promise<RefPage> {
  const { prefix, pointsAt = [] } = wanted
  const command = gitCommands.listRefs(requester.repository.path, prefix, ...pointsAt)
  return tasks.run(requester, {
    command,
    async read(output) {
      const selection = createRefSelection(wanted)
      const split = createLineSplitter(Number.POSITIVE_INFINITY)
      for await (const chunk of output)
        for (const line of split(chunk)) {
          const [id = ''] = line.split(' ', 1)
          const name = line.slice(id.length + 1 + prefix.length)
          if (selection.add({ id, name })) return selection.page()
        }
      return selection.page()
    },
  })
}
