import { maxRunsOfFile, showHidden } from './hidden-characters.ts'
import { escapeHtml } from './html.ts'

/** The longest HTML of one file, in characters. */
export const maxFileLength = 4 * 1024 * 1024

/** Converts lines of HTML to numbered lines, which addresses name as `#L12`. */
export function toNumberedLines(lines: readonly string[]): string {
  let html = ''
  for (const [index, line] of lines.entries()) html += `<span id="L${index + 1}">${line}\n</span>`
  return html
}

/** Text as numbered lines without highlighting; undefined if they are too long. */
export function renderPlainText(text: string): string | undefined {
  const escaped = escapeHtml(normalizeLineEnds(text))
  if (escaped.length > maxFileLength) return undefined
  const numbered = toNumberedLines(toLines(showHidden(escaped, maxRunsOfFile)))
  return numbered.length > maxFileLength ? undefined : numbered
}

/** Splits text into its lines, without their ends. Empty text is one empty line. */
export function toLines(text: string): string[] {
  const lines = text.split('\n')
  if (lines.length > 1 && lines.at(-1) === '') lines.pop()
  return lines
}

/** Removes a byte order mark, and makes CR LF a line feed and lone surrogates U+FFFD. */
export function normalizeLineEnds(text: string): string {
  return text
    .replace(/^\ufeff/, '')
    .replaceAll('\r\n', '\n')
    .toWellFormed()
}
