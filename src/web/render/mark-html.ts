import type { TextRange } from './changed-words.ts'
import { lengthOfRun } from './hidden-characters.ts'
import { type Html, html, trusted } from './html.ts'

// A shown run of hidden characters; another tag; an entity; any other character.
const tokens = /<span class="unseen">([^<]*)<\/span>|<[^<>]*>|&[#\w]+;|[^<&]/gu

/**
 * Puts ranges of a text into an element, in HTML that this folder made of the text. The element ends before each tag and
 * begins again after it, so all elements stay nested.
 */
export function markHtml(text: string, ranges: readonly TextRange[], element: string): Html {
  if (ranges.length === 0) return trusted(text)
  let marked = ''
  let at = 0
  let next = 0
  let isOpen = false
  const close = () => {
    if (isOpen) marked += `</${element}>`
    isOpen = false
  }
  for (const [token, run] of text.matchAll(tokens)) {
    if (token.startsWith('<') && run === undefined) {
      close()
      marked += token
      continue
    }
    const length = lengthOf(token, run)
    while ((ranges[next]?.[1] ?? Number.POSITIVE_INFINITY) <= at) next += 1
    const isMarked = (ranges[next]?.[0] ?? Number.POSITIVE_INFINITY) < at + length
    if (!isMarked) close()
    else if (!isOpen) {
      marked += `<${element}>`
      isOpen = true
    }
    marked += token
    at += length
  }
  close()
  return trusted(marked)
}

/** The length of the text of a token. */
function lengthOf(token: string, run: string | undefined): number {
  if (run !== undefined) return lengthOfRun(run)
  return token.startsWith('&') ? 1 : token.length
}

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
