import { type Content, type Html, html } from '../../render/html.ts'
import type { PageContext } from '../page.ts'
import type { PageForm } from '../page-forms.ts'

/** The context and the forms of the sections of the settings. */
export type SectionParts = {
  context: PageContext
  /** The address of a form, by its path below the settings. */
  address: (path: string) => string
  form: (path: string) => PageForm
}

/** A section with its title and a line about it. */
export function section(title: string, about: string, content: Content): Html {
  const id = title.toLowerCase().replaceAll(' ', '-')
  return html`<section class="setting" aria-labelledby="${id}"><div><h2 id="${id}">${title}</h2><p class="soft">${about}</p></div>
<div>${content}</div></section>`
}
