import type { TextRange } from './changed-words.ts'
import { escapeHtml, type Html, trusted } from './html.ts'

// Control characters other than tabs, and those that change the direction of text: CVE-2021-42574.
const hiddenCharacters =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]/g

/** Text of a file or message as HTML, with hidden characters shown by their code points. */
export function visibleText(text: string): Html {
  return trusted(toVisible(text))
}

/** The same with some ranges, which are sorted and do not overlap, in an element such as `ins`. */
export function markedText(text: string, ranges: readonly TextRange[], element: string): Html {
  let marked = ''
  let from = 0
  for (const [start, end] of ranges) {
    marked += toVisible(text.slice(from, start))
    marked += `<${element}>${toVisible(text.slice(start, end))}</${element}>`
    from = end
  }
  return trusted(marked + toVisible(text.slice(from)))
}

/** Splits text into visible parts and, for each hidden character, its code point: `U+200B`. */
export function* splitHidden(text: string): Generator<[text: string, isHidden: boolean]> {
  let from = 0
  const given = text.toWellFormed()
  for (const { 0: character, index } of given.matchAll(hiddenCharacters)) {
    if (index > from) yield [given.slice(from, index), false]
    yield [toCodePoint(character), true]
    from = index + character.length
  }
  if (from < given.length) yield [given.slice(from), false]
}

function toVisible(text: string): string {
  return showHidden(escapeHtml(text.toWellFormed()))
}

/** Shows hidden characters in HTML whose tags have none. */
export function showHidden(html: string): string {
  return html.replace(
    hiddenCharacters,
    (character) => `<span class="unseen">${toCodePoint(character)}</span>`,
  )
}

function toCodePoint(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`
}
