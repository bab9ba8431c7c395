import { matchesPattern } from '#base/text-pattern.ts'
import type { ApiPath } from '#browse/api-path.ts'
import { refFilterMaxLength } from '#browse/refs/ref-selection.ts'
import { icon } from '../icons.ts'
import type { SharedContext } from '../page.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { toShort } from './code-target.ts'

// Few, since they are in each page of code; the pages of branches and tags have all.
const shownBranches = 50
const shownTags = 20
/** Of the tags whose names have one in them, those that are compared with it. */
const searchedTags = 200

type Branch = OperationValues['listBranches'][number]

type Place = { name: string; rev: string; path: ApiPath; protectedBranches?: readonly string[] }

/**
 * A menu of branches by recency and tags, which lead to the same path, and whether the revision is a branch. Tags of trees and
 * blobs have no pages.
 */
export async function refPicker(
  context: SharedContext,
  { name, rev, path, protectedBranches = [] }: Place,
  kind: 'src' | 'log' = 'src',
): Promise<{ picker: Html; isBranch: boolean }> {
  const { readPage, to } = context
  const [{ branches, next }, tags] = await Promise.all([
    branchesByRecency(context),
    readPage('listTags', { query: { limit: shownTags, order: 'version' } }),
  ])
  const ofCommits = tags.value.filter(({ commit }) => commit !== null)
  const shape = await shapeOf(rev)
  const item = (shown: string, target: string) =>
    html`<li><a href="${to[kind](name, target, path)}"${target === rev && html` aria-current="true"`}>${shown}</a></li>`
  const more = (hasMore: boolean, page: string) =>
    hasMore && html`<li class="more"><a href="${to.of(name, page)}">All ${page}</a></li>`
  const isListed = branches.some(({ revision }) => revision === rev)
  const isBranch =
    isListed || (next !== undefined && shape === 'branch' && !rev.startsWith('refs/'))
  const isProtected =
    shape === 'branch' && protectedBranches.some((pattern) => matchesPattern(rev, pattern))

  /** What a revision is; one that is in neither list is looked for among the tags that have its name in theirs. */
  async function shapeOf(rev: string): Promise<'branch' | 'tag' | 'commit'> {
    if (toShort(rev) !== rev) return 'commit'
    if (rev.startsWith('refs/tags/')) return 'tag'
    if (branches.some(({ revision }) => revision === rev)) return 'branch'
    if (ofCommits.some(({ revision }) => revision === rev)) return 'tag'
    if (tags.next === undefined) return 'branch'
    const filter = rev.slice(0, refFilterMaxLength)
    const found = await readPage('listTags', { query: { filter, limit: searchedTags } })
    return found.value.some(({ revision }) => revision === rev) ? 'tag' : 'branch'
  }

  const picker = html`<details class="menu picker"><summary class="button">${icon(shape)}<span class="hidden">Revision </span><code class="cut">${toShort(rev)}</code>${icon('down')}</summary>
<div class="menu-list">
<input type="search" class="needs-js" aria-label="Filter branches and tags" placeholder="Filter" data-filter="li:not(.more)">
<p>Branches</p>
<ul>${branches.slice(0, shownBranches).map((branch) => item(branch.name, branch.revision))}${more(next !== undefined || branches.length > shownBranches, 'branches')}</ul>
${
  ofCommits.length > 0 &&
  html`<p>Tags</p>
<ul>${ofCommits.map((tag) => item(tag.name, tag.revision))}${more(tags.next !== undefined, 'tags')}</ul>`
}
</div></details>${isProtected && html`<span class="soft nowrap">${icon('lock')} protected</span>`}`
  return { picker, isBranch }
}

/** Their newest commits are read for the order. */
const maxSorted = 1000

/**
 * The branches whose names have the filter in them: the default one first, then by their newest commits. Of very many, the
 * first by name, with the cursor of the next ones.
 */
export async function branchesByRecency(
  { readPage }: Pick<SharedContext, 'readPage'>,
  filter?: string,
): Promise<{ branches: Branch[]; next: string | undefined }> {
  const query = { limit: maxSorted, filter, counts: false }
  const { value, next } = await readPage('listBranches', { query })
  const branches = value.toSorted(
    (one, other) =>
      Number(other.isDefault) - Number(one.isDefault) ||
      (next === undefined ? (other.commit?.at ?? 0) - (one.commit?.at ?? 0) : 0),
  )
  return { branches, next }
}
