import { toSize } from '../../base/format.ts'
import { type Html, html } from '../../render/html.ts'
import { counted, shortRef } from '../display-text.ts'
import { icon } from '../icons.ts'
import { formButton } from '../page-forms.ts'
import type { OperationValues } from '../read-operations.ts'
import { type SectionParts, section } from './section.ts'

const maxShown = 50

/** The caches of runs, those that were used last first. */
export function cacheSection(
  { address, context }: SectionParts,
  { caches, mayDelete }: { caches: OperationValues['listCaches']; mayDelete: boolean },
): Html {
  const shown = caches.toSorted((a, b) => b.lastUsedAt - a.lastUsedAt).slice(0, maxShown)
  const bytes = caches.reduce((sum, { size }) => sum + size, 0)
  return section(
    'Caches',
    'What workflow runs keep for later ones. Those that are not used are deleted automatically.',
    html`<div class="card">
<p class="pad soft">${caches.length === 0 ? 'There are no caches.' : html`${counted(caches.length, 'cache')}, ${toSize(bytes)}.`}</p>
${
  shown.length > 0 &&
  html`<ul>${shown.map(
    ({ id, key, ref, size, lastUsedAt }) =>
      html`<li class="row">${icon('database', 'soft')}<span class="grow"><b class="mono">${key}</b> <span class="soft">${shortRef(ref)}</span></span>
<span class="soft">${toSize(size)}, used ${context.time.age(lastUsedAt)}</span>
${mayDelete && formButton(address('caches/remove'), 'Delete', { hidden: { cache: id }, className: 'small danger', label: `Delete ${key}` })}</li>`,
  )}</ul>`
}
${mayDelete && caches.length > 1 && html`<div class="pad">${formButton(address('caches/clear'), 'Delete all caches', { className: 'small danger' })}</div>`}</div>`,
  )
}
