import { toSize } from '#base/format.ts'
import { copyButton, icon } from '../icons.ts'
import { encodeRevision } from '../links.ts'
import type { SharedContext } from '../page.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { describeState, type RunInList, toneBeside } from '../run-states.ts'
import { toShort } from './code-target.ts'
import { languageBar } from './language-shares.ts'

type ShownRepository = OperationValues['getRepository']

const shownNames = 4

type Shown = {
  repository: ShownRepository
  rev: string
  tree: OperationValues['getTree']
}

/** What stands beside the files of a repository: how to clone it, its state, its languages, and downloads. */
export async function repositorySide(
  context: SharedContext,
  { repository, rev, tree }: Shown,
): Promise<Html> {
  const { to } = context
  const { name } = repository
  const [state, languages] = await Promise.all([
    stateOf(context, repository),
    languageBar(context, tree),
  ])
  const revision = encodeRevision(rev)
  const archive = (format: string) => to.of(name, `archive/${revision}.${format}`)
  return html`<aside class="side" aria-label="About">
<section><h2>Clone</h2>${cloneFields(context, repository)}</section>
<section><h2>State</h2><ul>${state}</ul></section>
${languages}
<section><h2>Download</h2><ul class="downloads"><li><a href="${archive('tar.gz')}" rel="nofollow">${toShort(rev)}.tar.gz</a></li><li><a href="${archive('zip')}" rel="nofollow">zip</a></li><li><a href="${to.feed(name, rev)}">Atom feed</a></li></ul></section>
</aside>`
}

/** The addresses to clone a repository from. They include the page's own address. */
export function cloneFields(context: SharedContext, repository: ShownRepository): Html {
  const { ssh } = repository.cloneUrls
  const urls = [pageUrl(context, repository), ...(ssh === null ? [] : [ssh])]
  return html`<div class="card">${urls.map(
    (url) => html`<div class="copy-field"><code title="${url}">${url}</code>${copyButton()}</div>`,
  )}</div>`
}

/** The address of the page of a repository, with its host. */
export function pageUrl({ baseUrl, to }: SharedContext, { name }: { name: string }): string {
  return new URL(to.repository(name), baseUrl).href
}

async function stateOf(
  { tryRead, to, time }: SharedContext,
  repository: ShownRepository,
): Promise<Html[]> {
  const { name, protectedBranches, ownerUsername, visibility, sizeBytes, pushedAt } = repository
  const [runs, pushes, collaborators] = await Promise.all([
    tryRead('listRuns', { query: { limit: 1 } }),
    tryRead('listPushes', { query: { limit: 1 } }),
    tryRead('listCollaborators'),
  ])
  const run = runs?.[0]
  const push = pushes?.[0]
  const others = collaborators?.collaborators ?? []
  const items: (Html | false | undefined)[] = [
    run && runItem(run, to.of(name, `runs/${run.number}`)),
    pushedAt !== null &&
      html`<li>${icon('push')}<span>Pushed ${time.age(push?.pushedAt ?? pushedAt)}${push && ` by ${push.actor.username}`}</span></li>`,
    protectedBranches.length > 0 &&
      html`<li>${icon('shield')}<span>${toList(protectedBranches)} protected</span></li>`,
    visibility !== 'private' &&
      html`<li>${icon('eye')}<span>${visibility === 'public' ? 'Public' : 'Internal'}</span></li>`,
    html`<li>${icon('person')}<span>${ownerUsername}${others.length > 0 && `, with ${toList(others)}`}</span></li>`,
    html`<li>${icon('database')}<span>${toSize(sizeBytes)} stored</span></li>`,
  ]
  return items.filter((item) => item instanceof Object)
}

function runItem(run: RunInList, href: string): Html {
  const { shape, predicate } = describeState(run)
  return html`<li class="${toneBeside(run)}">${icon(shape)}<a href="${href}">Run ${run.number} ${predicate}</a></li>`
}

/** `a, b and c`; of many, the first and how many more. */
export function toList(names: readonly string[]): string {
  const hidden = names.length - shownNames
  const shown = hidden > 0 ? [...names.slice(0, shownNames), `${hidden} more`] : [...names]
  const last = shown.pop() ?? ''
  return shown.length === 0 ? last : `${shown.join(', ')} and ${last}`
}
