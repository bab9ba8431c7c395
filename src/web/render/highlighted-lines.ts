import { maxRunsOfFile, showHidden } from './hidden-characters.ts'
import { highlight, languageOf } from './languages.ts'
import { maxFileLength, normalizeLineEnds, toLines, toNumberedLines } from './numbered-lines.ts'

/** Highlights a file as numbered lines; undefined if there is no language for its name, or they are too long. */
export function renderCode(text: string, fileName: string): string | undefined {
  const language = languageOf(fileName)
  if (language === undefined) return undefined
  const html = showHidden(highlight(normalizeLineEnds(text), language), maxRunsOfFile)
  const numbered = toNumberedLines(closeInLines(toLines(html)))
  return numbered.length > maxFileLength ? undefined : numbered
}

/** Closes elements that span lines at the end of each line, and opens them again in the next. */
export function closeInLines(lines: readonly string[]): string[] {
  const open: string[] = []
  return lines.map((line) => {
    const before = open.join('')
    for (const [tag] of line.matchAll(/<span[^<>]*>|<\/span>/g)) {
      if (tag === '</span>') open.pop()
      else open.push(tag)
    }
    return before + line + '</span>'.repeat(open.length)
  })
}
