import { toSize } from '#base/format.ts'
import { shortRef } from '#base/short-ref.ts'
import { counted } from '../display-text.ts'
import { doneNotice } from '../done.ts'
import { icon } from '../icons.ts'
import type { PageContext } from '../page.ts'
import { askButton, type PageForm } from '../page-forms.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Content, type Html, html } from '../render/html.ts'

const maxShown = 50

type CacheValues = {
  caches: OperationValues['listCaches']
  usage: OperationValues['getRunFileUsage']
  mayDelete: boolean
}

/** The space that artifacts and caches take, and the caches of runs, those that were used last first. */
export function cacheSection(parts: SectionParts, { caches, usage, mayDelete }: CacheValues): Html {
  const { address, context } = parts
  const shown = caches.toSorted((a, b) => b.lastUsedAt - a.lastUsedAt).slice(0, maxShown)
  return section(
    parts,
    {
      id: 'caches',
      title: 'Caches and artifacts',
      about:
        'What workflow runs keep for later ones, and for people. What is old or not used is deleted automatically.',
    },
    html`<div class="card">
<p class="pad soft">${toUsage('cache', usage.caches)}; ${toUsage('artifact', usage.artifacts)}.</p>
${
  shown.length > 0 &&
  html`<ul>${shown.map(
    ({ id, key, ref, size, lastUsedAt }) =>
      html`<li class="row">${icon('database', 'soft')}<span class="grow"><b class="mono">${key}</b> <span class="soft">${shortRef(ref)}</span></span>
<span class="soft">${toSize(size)}, used ${context.time.age(lastUsedAt)}</span>
${mayDelete && askButton(context, { action: address('caches/remove'), verb: 'Delete', object: key, consequence: 'The next run makes it again, which takes longer.', hidden: { cache: id } })}</li>`,
  )}</ul>`
}
${mayDelete && caches.length > 1 && html`<div class="pad">${askButton(context, { action: address('caches/clear'), verb: 'Delete', object: 'all caches', isInRow: false, consequence: 'The next runs make them again, which takes longer.' })}</div>`}</div>`,
  )
}

function toUsage(
  noun: string,
  { count, sizeBytes, maxBytes }: { count: number; sizeBytes: number; maxBytes: number },
): string {
  return `${counted(count, noun)}, ${toSize(sizeBytes)} of ${toSize(maxBytes)}`
}

/** The sections, by the paths of their forms where they have one. */
export type SectionId =
  | 'general'
  | 'branches'
  | 'tags'
  | 'collaborators'
  | 'secrets'
  | 'trust-rules'
  | 'limits'
  | 'caches'
  | 'owner'
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
