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

/** Creates HTML from a template whose values are escaped, in text and in quoted attributes. */
export function html(strings: TemplateStringsArray, ...values: Content[]): Html {
  let text = strings[0] ?? ''
  for (const [index, value] of values.entries()) text += toText(value) + strings[index + 1]
  return new Html(text)
}

/** Takes text as HTML without escaping. For output of this folder's renderers and constants alone. */
export function trusted(text: string): Html {
  return new Html(text)
}

function toText(value: Content): string {
  if (typeof value === 'string') return escapeHtml(value)
  if (value instanceof Html) return value.text
  if (Array.isArray(value)) {
    let text = ''
    for (const part of value) text += toText(part)
    return text
  }
  return value === false || value === null || value === undefined ? '' : String(value)
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
