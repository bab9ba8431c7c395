import { doneNotice } from '../done.ts'
import type { PageContext } from '../page.ts'
import type { PageForm } from '../page-forms.ts'
import { type Content, type Html, html } from '../render/html.ts'

/** The sections, by the paths of their forms where they have one. */
export type SectionId =
  | 'general'
  | 'branches'
  | 'tags'
  | 'collaborators'
  | 'secrets'
  | 'caches'
  | 'delete'

/** The context and the forms of the sections of the settings. */
export type SectionParts = {
  context: PageContext
  /** The address of a form, by its path below the settings. */
  address: (path: string) => string
  form: (path: string) => PageForm
}

/** A section with its title and a line about it, and with what was just saved in it. */
export function section(
  { context }: SectionParts,
  { id, title, about }: { id: SectionId; title: string; about: string },
  content: Content,
): Html {
  return html`<section class="setting" id="${id}" aria-labelledby="${id}-title"><div><h2 id="${id}-title">${title}</h2><p class="soft">${about}</p></div>
<div>${doneNotice(context, { at: id })}${content}</div></section>`
}
