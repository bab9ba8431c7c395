import type { SharedContext } from '../page.ts'

type ShownRef = { kind: 'branch' | 'tag'; text: string; href: string }

export type RefsById = ReadonlyMap<string, readonly ShownRef[]>

const limit = 1000

/** The branches and tags of each commit, among the first 1,000 of each by name. */
export async function refsById({ tryRead, to, params }: SharedContext): Promise<RefsById> {
  const name = params.name ?? ''
  const [branches = [], tags = []] = await Promise.all([
    tryRead('listBranches', { query: { limit, counts: false } }),
    tryRead('listTags', { query: { limit } }),
  ])
  const refs = new Map<string, ShownRef[]>()
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
