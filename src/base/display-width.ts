import { once } from './once.ts'

const ascii = /^[\x20-\x7e]*$/
// Scripts and symbols that Unicode calls wide (UAX #11), and emoji.
const wide =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}\u3000-\u303e\uff01-\uff60\uffe0-\uffe6]/u
// Made when first needed: it takes 10 ms.
const segmenter = once(() => new Intl.Segmenter('en', { granularity: 'grapheme' }))

/** The number of columns that a text without control characters takes on a terminal. */
export function displayWidth(text: string): number {
  if (ascii.test(text)) return text.length
  return [...segmenter().segment(text)].reduce((sum, { segment }) => sum + widthOf(segment), 0)
}

/** Cuts a text to a number of columns, with an ellipsis where something is missing. */
export function cutToWidth(text: string, columns: number): string {
  if (displayWidth(text) <= columns) return text
  let cut = ''
  let left = columns - 1
  for (const { segment } of segmenter().segment(text)) {
    left -= widthOf(segment)
    if (left < 0) break
    cut += segment
  }
  return `${cut}…`
}

function widthOf(grapheme: string): number {
  return wide.test(grapheme) ? 2 : 1
}
