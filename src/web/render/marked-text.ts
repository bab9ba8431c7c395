import type { TextRange } from './changed-words.ts'
import { type Html, html, trusted } from './html.ts'

/** Text with some ranges, which are sorted and do not overlap, in an element such as `ins`. */
export function markedText(text: string, ranges: readonly TextRange[], element: string): Html {
  if (ranges.length === 0) return html`${text}`
  let marked = ''
  let from = 0
  for (const [start, end] of ranges) {
    marked += html`${text.slice(from, start)}`.text
    marked += `<${element}>${html`${text.slice(start, end)}`.text}</${element}>`
    from = end
  }
  return trusted(marked + html`${text.slice(from)}`.text)
}
