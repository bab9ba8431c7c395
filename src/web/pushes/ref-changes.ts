import { shortRef } from '#base/short-ref.ts'
import { shortId } from '../display-text.ts'
import { icon } from '../icons.ts'
import type { Links } from '../links.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'

export type ShownPush = OperationValues['listPushes'][number]
type RefChange = ShownPush['refs'][number]

/** The change of a ref by a push, with links to its commits. */
export function refChange(change: RefChange, name: string, to: Links): Html {
  const { ref, before, after, forced, created, deleted } = change
  const isTag = ref.startsWith('refs/tags/')
  const id = (commit: string) =>
    html`<a class="mono" href="${to.commit(name, commit)}">${shortId(commit)}</a>`
  const detail = created
    ? html`<span class="badge good">created</span> ${id(after)}`
    : deleted
      ? html`<span class="badge">deleted</span> <span class="mono soft">${shortId(before)}</span>`
      : html`<a class="mono linked" href="${to.compare(name, before, after)}">${shortId(before)} → ${shortId(after)}</a>`
  return html`<span class="ref-change">${icon(isTag ? 'tag' : 'branch', 'soft')}${
    deleted
      ? html`<b>${shortRef(ref)}</b>`
      : html`<a href="${to.src(name, isTag ? ref : shortRef(ref))}"><b>${shortRef(ref)}</b></a>`
  } ${detail}${forced && html` <span class="badge bad">forced</span>`}</span>`
}

/** The first changes of a push, and how many there are besides. */
export function refChanges({ refs }: ShownPush, name: string, to: Links, maxShown: number): Html {
  return html`<ul class="ref-changes">${refs
    .slice(0, maxShown)
    .map(
      (change) => html`<li>${refChange(change, name, to)}</li>`,
    )}${refs.length > maxShown && html`<li class="soft">and ${refs.length - maxShown} more</li>`}</ul>`
}

/** The changes that an undo of a push would make, as list items. */
export function undoSteps({ refs }: ShownPush): Html {
  return html`${refs.map(({ ref, before, after, created, deleted }) => {
    const name = html`<b>${shortRef(ref)}</b>`
    if (created) return html`<li>delete ${name}, which is at <code>${shortId(after)}</code></li>`
    if (deleted) return html`<li>create ${name} again at <code>${shortId(before)}</code></li>`
    return html`<li>move ${name} from <code>${shortId(after)}</code> back to <code>${shortId(before)}</code></li>`
  })}`
}
