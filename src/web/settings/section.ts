import { type Content, type Html, html } from '../../render/html.ts'
import type { PageContext } from '../page.ts'
import type { PageForm } from '../page-forms.ts'

/** What the sections of the settings are made from. */
export type SectionParts = {
  context: PageContext
  /** The address of a form, by its path below the settings. */
  address: (path: string) => string
  form: (path: string) => PageForm
}

/** A section with what it does in a line. */
export function section(title: string, about: string, content: Content): Html {
  const id = title.toLowerCase().replaceAll(' ', '-')
  return html`<section class="setting" aria-labelledby="${id}"><div><h2 id="${id}">${title}</h2><p class="soft">${about}</p></div>
<div>${content}</div></section>`
}
