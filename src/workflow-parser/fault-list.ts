import type { Fault, SourceFile, SourcePosition } from './workflow.ts'

/** Collects what is wrong with one file. */
export type FaultList = {
  add: (place: SourcePosition, message: string, instead: string) => void
  addAll: (faults: Fault[]) => void
  /** How many have been told so far. */
  count: () => number
  /** In the order of the file, each once, at most 50, all within the file. */
  all: () => Fault[]
}

const faultsMost = 50

export function createFaultList({ text }: SourceFile): FaultList {
  const found: Fault[] = []
  return {
    add: (place, message, instead) => void found.push({ ...place, message, instead }),
    addAll: (faults) => void found.push(...faults),
    count: () => found.length,
    all() {
      const lines = text.split('\n')
      const inOrder = found
        .map((fault) => withinFile(fault, lines))
        .sort((one, other) => one.line - other.line || one.column - other.column)
      return withoutRepeats(inOrder).slice(0, faultsMost)
    },
  }
}

/** One line for people: `path:line:column: message Instead: advice`. */
export function formatFault({ file, line, column, message, instead }: Fault): string {
  const advice = instead === '' ? '' : ` Instead: ${instead}`
  // A file name may hold anything; what is printed must stay one line and leave the terminal alone.
  return `${file}:${line}:${column}: ${message}${advice}`.replace(
    /[\p{Cc}\p{Zl}\p{Zp}]/gu,
    '\ufffd',
  )
}

/** A text of a file as a message can hold it: quoted, and not too long. */
export function quoted(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 57)}…` : text)
}

/** Words as a sentence lists them: `a, b or c`. */
export function listed(words: readonly string[], last = 'or'): string {
  if (words.length < 2) return words.join('')
  return `${words.slice(0, -1).join(', ')} ${last} ${words.at(-1)}`
}

// Expressions in folded texts are only about where they seem to be.
function withinFile(fault: Fault, lines: string[]): Fault {
  const line = Math.min(Math.max(fault.line, 1), lines.length)
  const columns = (lines[line - 1] ?? '').length + 1
  return { ...fault, line, column: Math.min(Math.max(fault.column, 1), columns) }
}

// An alias repeats what is wrong where its anchor stands.
function withoutRepeats(faults: Fault[]): Fault[] {
  const seen = new Set<string>()
  return faults.filter(({ line, column, message }) => {
    const key = `${line}:${column}:${message}`
    return !seen.has(key) && seen.add(key)
  })
}
