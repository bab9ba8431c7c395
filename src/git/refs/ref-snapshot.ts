import { LeftToGitError, type LooseTree, refsIn } from './loose-refs.ts'
import type { PackedLines, RefLines, Style } from './packed-lines.ts'
import { targetOf } from './stored-ref.ts'

/** The visible refs of a repository at one moment. Names are as in RawRefs. */
export type RefSnapshot = {
  head: RefValue
  /** Lists the objects of loose refs that may be tags. */
  unpeeled: () => string[]
  /** Formats refs as pkt-lines, sorted by name, in few chunks. */
  lines: (wanted: Wanted) => Promise<Buffer[]>
  /** Whether a ref points to an object. */
  hasValue: (id: string) => boolean
  /** Approximate memory besides the packed refs, in bytes. */
  size: () => number
}

/** Peeled values of tags by the ids of their objects; empty for objects that are not tags. */
export type Peeled = ReadonlyMap<string, string>

/** For requests without peeled values. */
export const noTags: Peeled = new Map()

/** The value of a ref: an object id, and the peeled id, empty for objects that are not tags. */
export type RefValue = {
  /** Undefined for a symbolic ref whose target does not exist; git does not list it. */
  id: string | undefined
  /** Undefined when not known yet. */
  peeled: string | undefined
  /** The final target of a symbolic ref. */
  target: string | undefined
}

type LooseRef = RefValue & {
  name: string
  /** The number of packed refs that sort before it, and whether the next one has its name. */
  at: number
  isPacked: boolean
}

type Wanted = {
  style: Style
  /** Names begin with one of these. */
  prefixes: readonly string[]
  /** Whether to list the targets of symbolic refs. */
  symrefs: boolean
  peeled: Peeled
}

// SYMREF_MAXDEPTH in Git's refs/refs-internal.h.
const maxReads = 5
const joinedMaxBytes = 256 * 1024

/** Throws a LeftToGitError. */
export function createRefSnapshot(tree: LooseTree, packed: PackedLines): RefSnapshot {
  const values = refsIn(tree)
  const loose = [...values.keys()].sort().map((name): LooseRef => {
    const { at, id } = packed.find(bytesOf(name))
    return { name, ...resolved(name), at, isPacked: id !== undefined }
  })
  const head = resolved('HEAD')

  function resolved(name: string): RefValue {
    let last = name
    for (let reads = 0; reads < maxReads; reads++) {
      const value = last === 'HEAD' ? tree.head.value : values.get(last)
      const target = last === name ? undefined : last
      const next = targetOf(value)
      if (next === undefined) return { ...valueIn(last, value), target }
      last = next
    }
    throw new LeftToGitError(name)
  }

  function valueIn(name: string, loose: string | undefined): Omit<RefValue, 'target'> {
    const { id, peeled } = packed.find(bytesOf(name))
    if (loose === undefined || loose === id) return { id, peeled }
    // Branches always point to commits.
    return { id: loose, peeled: name.startsWith('refs/heads/') ? '' : undefined }
  }

  // Returns the index of the first loose ref whose name, cut to the prefix's length, is >= the prefix, or > if `isAfter`.
  function firstFrom(prefix: string, isAfter: boolean): number {
    let [low, high] = [0, loose.length]
    while (low < high) {
      const middle = (low + high) >>> 1
      const name = loose[middle]?.name.slice(0, prefix.length) ?? ''
      if (isAfter ? name <= prefix : name < prefix) low = middle + 1
      else high = middle
    }
    return low
  }

  function* merged(prefix: string, lines: RefLines, toLines: (ref: LooseRef) => string) {
    const [first, end] = packed.range(bytesOf(prefix))
    let at = first
    let text = ''
    for (const ref of loose.slice(firstFrom(prefix, false), firstFrom(prefix, true))) {
      if (ref.at > at) {
        yield bytesOf(text)
        text = ''
        yield cut(lines, at, ref.at)
      }
      text += toLines(ref)
      at = ref.at + (ref.isPacked ? 1 : 0)
    }
    yield bytesOf(text)
    yield cut(lines, at, end)
  }

  return {
    head,

    unpeeled: () =>
      [head, ...loose].flatMap(({ id, peeled }) =>
        id !== undefined && peeled === undefined ? [id] : [],
      ),

    async lines({ style, prefixes, symrefs, peeled }) {
      const lines = await packed.lines(style)
      const toLines = (ref: LooseRef) =>
        linesOf(ref.name, symrefs ? ref : { ...ref, target: undefined }, style, peeled)
      return joined(disjoint(prefixes).flatMap((prefix) => [...merged(prefix, lines, toLines)]))
    },

    hasValue(id) {
      if (head.id === id || loose.some((ref) => ref.id === id)) return true
      // A loose ref replaces the packed one.
      const replaced = new Set(loose.filter(({ isPacked }) => isPacked).map(({ at }) => at))
      return packed.pointingTo(id).some((at) => !replaced.has(at))
    },

    size: () => 2000 + 500 * loose.length,
  }
}

/** The pkt-lines of a ref; none for one that has no value. */
export function linesOf(name: string, value: RefValue, style: Style, known: Peeled): string {
  const { id, target } = value
  if (id === undefined) return ''
  const peeled = style === 'plain' ? '' : (value.peeled ?? known.get(id) ?? '')
  const symref = target === undefined ? '' : ` symref-target:${target}`
  if (style !== 'doubled') {
    return pktLine(`${id} ${name}${symref}${peeled === '' ? '' : ` peeled:${peeled}`}`)
  }
  return pktLine(`${id} ${name}`) + (peeled === '' ? '' : pktLine(`${peeled} ${name}^{}`))
}

// Text in latin1.
function pktLine(text: string): string {
  return `${(text.length + 5).toString(16).padStart(4, '0')}${text}\n`
}

export function bytesOf(text: string): Buffer {
  return Buffer.from(text, 'latin1')
}

function cut({ bytes, starts }: RefLines, from: number, to: number): Buffer {
  return from < to ? bytes.subarray(starts[from], starts[to]) : bytes.subarray(0, 0)
}

// Sorts prefixes and drops those covered by another one, so that no ref matches twice.
function disjoint(prefixes: readonly string[]): string[] {
  const kept: string[] = []
  for (const prefix of prefixes.toSorted()) {
    const last = kept.at(-1)
    if (last === undefined || !prefix.startsWith(last)) kept.push(prefix)
  }
  return kept
}

/** Joins small chunks into one, to save writes. */
export function joined(pieces: Buffer[]): Buffer[] {
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0)
  if (length <= joinedMaxBytes) return [Buffer.concat(pieces, length)]
  return pieces.filter((piece) => piece.length > 0)
}
