import { matchesPattern } from '../../base/text-pattern.ts'
import type { ApiPath } from '../../browse/api-path.ts'
import { type Html, html } from '../../render/html.ts'
import { icon } from '../icons.ts'
import type { SharedContext } from '../page.ts'
import { toShort } from './code-target.ts'

// Few, since they are in each page of code; the pages of branches and tags have all.
const shownBranches = 50
const shownTags = 20

type Place = { name: string; rev: string; path: ApiPath; protectedBranches?: readonly string[] }

/** A menu of branches and tags, which lead to the same path. Tags of trees and blobs have no pages. */
export async function refPicker(
  { readPage, to }: SharedContext,
  { name, rev, path, protectedBranches = [] }: Place,
  kind: 'src' | 'log' = 'src',
): Promise<Html> {
  const [branches, tags] = await Promise.all([
    readPage('listBranches', { query: { limit: shownBranches, counts: false } }),
    readPage('listTags', { query: { limit: shownTags } }),
  ])
  const ofCommits = tags.value.filter(({ commit }) => commit !== null)
  const isTag = ofCommits.some(({ revision }) => revision === rev)
  const shape = isTag ? 'tag' : toShort(rev) === rev ? 'branch' : 'commit'
  const item = (shown: string, target: string) =>
    html`<li><a href="${to[kind](name, target, path)}"${target === rev && html` aria-current="true"`}>${shown}</a></li>`
  const more = (next: string | undefined, page: string) =>
    next !== undefined && html`<li><a href="${to.of(name, page)}">All ${page}</a></li>`
  const isProtected =
    shape === 'branch' && protectedBranches.some((pattern) => matchesPattern(rev, pattern))
  return html`<details class="menu picker"><summary class="button">${icon(shape)}<span class="hidden">Revision </span><code class="cut">${toShort(rev)}</code>${icon('down')}</summary>
<div class="menu-list">
<input type="search" class="needs-js" aria-label="Filter branches and tags" placeholder="Filter" data-filter="li">
<p>Branches</p>
<ul>${branches.value.map((branch) => item(branch.name, branch.revision))}${more(branches.next, 'branches')}</ul>
${
  ofCommits.length > 0 &&
  html`<p>Tags</p>
<ul>${ofCommits.map((tag) => item(tag.name, tag.revision))}${more(tags.next, 'tags')}</ul>`
}
</div></details>${isProtected && html`<span class="soft nowrap">${icon('lock')} protected</span>`}`
}
