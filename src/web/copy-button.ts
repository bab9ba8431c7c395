import { icon } from './icons.ts'
import { type Html, html } from './render/html.ts'

/** A button that copies a text; by default that of the code beside it. */
export function copyButton(text?: string): Html {
  return html`<button type="button" class="copy needs-js"${text !== undefined && html` data-copy="${text}"`} aria-label="Copy">${icon('copy')}</button>`
}
