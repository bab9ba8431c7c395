import { icon } from '../icons.ts'
import type { SharedContext } from '../page.ts'
import { type Html, html } from '../render/html.ts'

type ShownRef = { kind: 'branch' | 'tag'; text: string; href: string }

export type RefsById = ReadonlyMap<string, readonly ShownRef[]>

const limit = 1000
const maxBadges = 10

/** The branches and tags of some commits, at most 100 of them. */
export async function refsById(
  { tryRead, to, params }: SharedContext,
  ids: readonly string[],
): Promise<RefsById> {
  const refs = new Map<string, ShownRef[]>()
  if (ids.length === 0) return refs
  const name = params.name ?? ''
  const query = { pointsAt: ids.join(','), limit }
  const [branches = [], tags = []] = await Promise.all([
    tryRead('listBranches', { query: { ...query, counts: false } }),
    tryRead('listTags', { query }),
  ])
  function add(id: string, ref: ShownRef): void {
    const known = refs.get(id)
    if (known) known.push(ref)
    else refs.set(id, [ref])
  }
  for (const { id, name: text, revision } of branches)
    add(id, { kind: 'branch', text, href: to.src(name, revision) })
  for (const { commit, name: text, revision } of tags)
    if (commit !== null) add(commit, { kind: 'tag', text, href: to.src(name, revision) })
  return refs
}

/** The branches and tags of a commit as badges. Of many, only the first ones. */
export function refBadges(refs: readonly ShownRef[] = []): Html {
  return html`${refs
    .slice(0, maxBadges)
    .map(
      ({ kind, text, href }) => html` <a class="badge" href="${href}">${icon(kind)}${text}</a>`,
    )}${refs.length > maxBadges && html` <span class="badge">and more</span>`}`
}
