import { escapeHtml } from './html.ts'
import { showHidden } from './visible-text.ts'

/** Converts lines of HTML to numbered lines, which addresses name as `#L12`. */
export function toNumberedLines(lines: readonly string[]): string {
  let html = ''
  for (const [index, line] of lines.entries()) html += `<span id="L${index + 1}">${line}\n</span>`
  return html
}

/** Text as numbered lines without highlighting. */
export function renderPlainText(text: string): string {
  return toNumberedLines(toLines(showHidden(escapeHtml(normalizeLineEnds(text)))))
}

/** Lines without their ends; what follows the last end is a line only if it is not empty. */
export function toLines(text: string): string[] {
  const lines = text.split('\n')
  if (lines.length > 1 && lines.at(-1) === '') lines.pop()
  return lines
}

/** Text without a byte order mark, whose lines end in a line feed alone. */
export function normalizeLineEnds(text: string): string {
  return text
    .replace(/^\ufeff/, '')
    .replaceAll('\r\n', '\n')
    .toWellFormed()
}
