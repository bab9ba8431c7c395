import type { SourcePosition } from '../workflow.ts'

/** A YAML value with its position. Aliases refer to the node of their anchor itself. */
export type SourceNode = ScalarNode | ListNode | MapNode

export type ScalarNode = {
  kind: 'scalar'
  value: string | number | boolean | null
  position: SourcePosition
  /** The start of its text: within the quotes, below the `|`. */
  textPosition: SourcePosition
}

type ListNode = { kind: 'list'; items: SourceNode[]; position: SourcePosition }

/** Its keys are distinct texts. */
export type MapNode = { kind: 'map'; entries: MapEntry[]; position: SourcePosition }

export type MapEntry = { key: string; keyPosition: SourcePosition; value: SourceNode }

/** The maximum size of a file, in bytes. */
export const fileMaxBytes = 256 * 1024

/** Converts offsets of a text to lines and columns. */
export type SourceText = ReturnType<typeof createSourceText>

export function createSourceText(file: string, text: string) {
  const lineStarts = [0]
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) {
    lineStarts.push(at + 1)
  }

  function positionAt(offset: number): SourcePosition {
    let line = 0
    let end = lineStarts.length
    while (end - line > 1) {
      const middle = (line + end) >> 1
      if ((lineStarts[middle] ?? 0) <= offset) line = middle
      else end = middle
    }
    return { file, line: line + 1, column: offset - (lineStarts[line] ?? 0) + 1 }
  }

  return {
    positionAt,

    /** The start of the line of a position, for messages. */
    lineOf({ line }: SourcePosition): string {
      const start = lineStarts[line - 1] ?? 0
      return text.slice(start, Math.min(lineStarts[line] ?? text.length, start + 1000))
    },

    /** The position of the first character of a scalar's text, for a scalar at an offset. */
    textPosition(
      start: number,
      value: string,
      style: 'block' | 'quoted' | 'plain',
    ): SourcePosition {
      if (style === 'plain') return positionAt(start)
      if (style === 'quoted') return positionAt(start + 1)
      const headerEnd = text.indexOf('\n', start)
      if (headerEnd === -1) return positionAt(start)
      const { line } = positionAt(headerEnd + 1)
      // The indentation that YAML removes is the difference of the first line in the file and in the text.
      const written = firstIndentation(text.slice(headerEnd + 1, headerEnd + 2000))
      const kept = firstIndentation(value.slice(0, 2000))
      return { file, line, column: Math.max(written - kept, 0) + 1 }
    },
  }
}

/** The spaces before the first line that is not blank. */
function firstIndentation(text: string): number {
  return /^(?:[ \t]*\r?\n)*( *)/.exec(text)?.[1]?.length ?? 0
}
