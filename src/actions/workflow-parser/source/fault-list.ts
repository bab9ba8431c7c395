import type { Fault, Note, SourceFile, SourcePosition } from '../workflow.ts'

/** Collects the faults and notes of a file. */
export type FaultList = {
  add: (position: SourcePosition, message: string, instead: string) => void
  addAll: (faults: Fault[]) => void
  /** Adds something that GitHub runs and no runner here can. Within a job, the job is skipped; elsewhere it is a fault. */
  unsupported: (position: SourcePosition, message: string, instead: string) => void
  /** Reads a part of the file, and returns the faults that `unsupported` got meanwhile. */
  collect: <Result>(read: () => Result) => { result: Result; unsupported: Fault[] }
  /** Adds a note on something that is accepted, but has no effect. */
  note: (position: SourcePosition, message: string) => void
  /** The number of faults so far. */
  count: () => number
  /** In the order of the file, each once, at most 50, all within the file. */
  all: () => Fault[]
  /** The notes, ordered and limited in the same way. */
  notes: () => Note[]
}

export const maxFaults = 50
const maxShownLines = 20

export function createFaultList({ text }: SourceFile): FaultList {
  const found: Fault[] = []
  const noted: Note[] = []
  let unsupported: Fault[] = []
  return {
    add: (position, message, instead) => void found.push({ ...position, message, instead }),
    unsupported: (position, message, instead) =>
      void unsupported.push({ ...position, message, instead }),
    collect(read) {
      const outer = unsupported
      unsupported = []
      const collected = { result: read(), unsupported }
      unsupported = outer
      return collected
    },
    addAll: (faults) => void found.push(...faults),
    note: (position, message) => void noted.push({ ...position, message }),
    count: () => found.length,
    all: () => sortNotes(withinFile([...found, ...unsupported], text)),
    notes: () => sortNotes(withinFile(noted, text)),
  }
}

/** Sorts faults or notes of a file by position, without repetitions, at most 50. */
export function sortNotes<T extends Note>(found: readonly T[]): T[] {
  const ordered = found.toSorted((one, other) => one.line - other.line || one.column - other.column)
  return withoutRepeats(ordered).slice(0, maxFaults)
}

/** Formats a fault as one line: `path:line:column: message Instead: advice`. */
export function formatFault(fault: Fault): string {
  return atPosition(fault, textOf(fault))
}

/** Formats faults as one line per cause: further places of the same fault in a file are listed at its end. */
export function formatFaults(faults: readonly Fault[]): string[] {
  return byCause(faults, textOf)
}

/** Formats notes in the same way: `path:line:column: note: message`. */
export function formatNotes(notes: readonly Note[]): string[] {
  return byCause(notes, ({ message }) => `note: ${message}`)
}

function textOf({ message, instead }: Fault): string {
  return instead === '' ? message : `${message} Instead: ${instead}`
}

function byCause<T extends Note>(found: readonly T[], format: (one: T) => string): string[] {
  const groups = Map.groupBy(found, (one) => JSON.stringify([one.file, format(one)]))
  return [...groups.values()].flatMap(([first, ...others]) =>
    first ? atPosition(first, `${format(first)}${alsoIn(first, others)}`) : [],
  )
}

function alsoIn({ line: first }: SourcePosition, others: readonly SourcePosition[]): string {
  const lines = [...new Set(others.map(({ line }) => line))].filter((line) => line !== first)
  if (lines.length === 0) return ''
  const more = lines.length > maxShownLines ? ', …' : ''
  return ` (also line${lines.length > 1 ? 's' : ''} ${lines.slice(0, maxShownLines).join(', ')}${more})`
}

function atPosition({ file, line, column }: SourcePosition, text: string): string {
  return printable(`${file}:${line}:${column}: ${text}`)
}

// A file name may contain line feeds and terminal escape sequences.
function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, '\ufffd')
}

/** Quotes and shortens a text of a file for a message. */
export function quoted(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 57)}…` : text)
}

/** The message for an input that an action or a workflow does not have. */
export function unknownInput(of: string, name: string): string {
  return `The ${of} has no input ${quoted(name)}.`
}

/** Joins words as in `a, b or c`. */
export function listed(words: readonly string[], last = 'or'): string {
  if (words.length < 2) return words.join('')
  return `${words.slice(0, -1).join(', ')} ${last} ${words.at(-1)}`
}

// Positions of expressions in folded texts are approximate.
function withinFile<T extends Note>(found: readonly T[], text: string): T[] {
  const lines = text.split('\n')
  return found.map((fault) => {
    const line = Math.min(Math.max(fault.line, 1), lines.length)
    const columns = (lines[line - 1] ?? '').length + 1
    return { ...fault, line, column: Math.min(Math.max(fault.column, 1), columns) }
  })
}

// An alias repeats the faults of its anchor.
function withoutRepeats<T extends Note>(faults: T[]): T[] {
  const seen = new Set<string>()
  return faults.filter(({ line, column, message }) => {
    const key = `${line}:${column}:${message}`
    return !seen.has(key) && seen.add(key)
  })
}

const maxLength = 40

/** Suggests the word that was probably meant by a mistyped one. */
export function suggest(word: string, words: readonly string[]): string | undefined {
  if (word.length > maxLength) return undefined
  const typed = plain(word)
  const allowed = Math.min(2, Math.floor(typed.length / 2))
  let best: string | undefined
  let bestDistance = allowed + 1
  for (const candidate of words) {
    const distance = distanceOf(typed, plain(candidate))
    if (distance >= bestDistance) continue
    best = candidate
    bestDistance = distance
  }
  return best
}

// `timeoutMinutes` and `timeout_minutes` are `timeout-minutes`.
function plain(word: string): string {
  return word.toLowerCase().replace(/[-_ ]/g, '')
}

/** The Levenshtein distance. */
function distanceOf(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index)
  for (const [line, character] of [...one].entries()) {
    const next = [line + 1]
    for (let column = 0; column < other.length; column++) {
      const change = (row[column] ?? 0) + (character === other[column] ? 0 : 1)
      next.push(Math.min(change, (row[column + 1] ?? 0) + 1, (next[column] ?? 0) + 1))
    }
    row = next
  }
  return row[other.length] ?? 0
}
