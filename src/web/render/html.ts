import { describeHidden, isSpecial, referToHidden, showHidden } from './hidden-characters.ts'

/** Text that is HTML already. Only `html` and `trusted` make one, so everything else is escaped. */
export class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }

  toString(): string {
    return this.text
  }
}

/** A value in a template: text is escaped, lists are joined; false, null and undefined are left out. */
export type Content = Html | string | number | false | null | undefined | Content[]

/**
 * Creates HTML from a template whose values are escaped, in text and in quoted attributes. Hidden characters are shown by
 * their code points in text and in names for people; other attributes keep their values.
 */
export function html(strings: TemplateStringsArray, ...values: Content[]): Html {
  let text = strings[0] ?? ''
  for (let index = 0; index < values.length; index++)
    text += toText(values[index], strings, index) + strings[index + 1]
  return new Html(text)
}

/** Takes text as HTML without escaping. For output of this folder's renderers and constants alone. */
export function trusted(text: string): Html {
  return new Html(text)
}

function toText(value: Content, strings: readonly string[], index: number): string {
  // Fast path: most values are plain.
  if (typeof value === 'string')
    return isSpecial(value) ? toSafe[placeOf(strings, index)](escapeHtml(value)) : value
  if (value instanceof Html) return value.text
  if (Array.isArray(value)) {
    let text = ''
    for (const part of value) text += toText(part, strings, index)
    return text
  }
  return value === false || value === null || value === undefined ? '' : String(value)
}

type Place = 'text' | 'label' | 'value'

const toSafe: Record<Place, (escaped: string) => string> = {
  text: (escaped) => showHidden(escaped.toWellFormed()),
  label: describeHidden,
  value: referToHidden,
}

const marks = /\s([\w-]{1,40})="|"|<(\/?)(title|textarea)\b/g
const labels = new Set(['title', 'aria-label', 'alt', 'placeholder', 'label', 'content'])

/** Where a value stands: in text, in an attribute for people or a title, which have no elements, or in any other attribute. */
function placeOf(strings: readonly string[], index: number): Place {
  let attribute: string | undefined
  let element: string | undefined
  for (let at = 0; at <= index; at += 1) {
    for (const [, name, slash, raw] of (strings[at] ?? '').matchAll(marks)) {
      if (attribute !== undefined) attribute = undefined
      else if (name !== undefined) attribute = name
      else if (raw !== undefined) element = slash === '' ? raw : undefined
    }
  }
  if (attribute !== undefined) return labels.has(attribute) ? 'label' : 'value'
  return element === undefined ? 'text' : element === 'textarea' ? 'value' : 'label'
}

const escapes: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Escapes text for HTML, in text and in quoted attributes. */
export function escapeHtml(text: string): string {
  // Fast path: most values need no escaping.
  return /[&<>"']/.test(text)
    ? text.replace(/[&<>"']/g, (character) => escapes[character] ?? '')
    : text
}
