import type { Fault, SourceFile, SourcePosition } from './workflow.ts'

/** Collects the faults of a file. */
export type FaultList = {
  add: (position: SourcePosition, message: string, instead: string) => void
  addAll: (faults: Fault[]) => void
  /** The number of faults so far. */
  count: () => number
  /** In the order of the file, each once, at most 50, all within the file. */
  all: () => Fault[]
}

const maxFaults = 50

export function createFaultList({ text }: SourceFile): FaultList {
  const found: Fault[] = []
  return {
    add: (position, message, instead) => void found.push({ ...position, message, instead }),
    addAll: (faults) => void found.push(...faults),
    count: () => found.length,
    all() {
      const lines = text.split('\n')
      const inOrder = found
        .map((fault) => withinFile(fault, lines))
        .sort((one, other) => one.line - other.line || one.column - other.column)
      return withoutRepeats(inOrder).slice(0, maxFaults)
    },
  }
}

/** Formats a fault as one line: `path:line:column: message Instead: advice`. */
export function formatFault({ file, line, column, message, instead }: Fault): string {
  const advice = instead === '' ? '' : ` Instead: ${instead}`
  // A file name may contain line feeds and terminal escape sequences.
  return `${file}:${line}:${column}: ${message}${advice}`.replace(
    /[\p{Cc}\p{Zl}\p{Zp}]/gu,
    '\ufffd',
  )
}

/** Quotes and shortens a text of a file for a message. */
export function quoted(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 57)}…` : text)
}

/** Joins words as in `a, b or c`. */
export function listed(words: readonly string[], last = 'or'): string {
  if (words.length < 2) return words.join('')
  return `${words.slice(0, -1).join(', ')} ${last} ${words.at(-1)}`
}

// Positions of expressions in folded texts are approximate.
function withinFile(fault: Fault, lines: string[]): Fault {
  const line = Math.min(Math.max(fault.line, 1), lines.length)
  const columns = (lines[line - 1] ?? '').length + 1
  return { ...fault, line, column: Math.min(Math.max(fault.column, 1), columns) }
}

// An alias repeats the faults of its anchor.
function withoutRepeats(faults: Fault[]): Fault[] {
  const seen = new Set<string>()
  return faults.filter(({ line, column, message }) => {
    const key = `${line}:${column}:${message}`
    return !seen.has(key) && seen.add(key)
  })
}
