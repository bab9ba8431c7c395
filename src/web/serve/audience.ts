import type { PlainSettings } from '#config/settings.ts'
import { parseTarget } from '../links.ts'
import type { Page } from '../page.ts'

type Visited = { params: Record<string, string>; query: URLSearchParams }

/** Parameters with which a list leads to history: its next page, and a search of all commits for those of an author. */
const deeper = ['cursor', 'author']

/**
 * Whether anonymous readers may open a page. Those of the current code alone get branches and tags by their names, and
 * the first page of a list, so that links from there lead to no history.
 */
export function isOpenToAnonymous(
  { audience }: Pick<Page, 'audience'>,
  allowed: PlainSettings['webAnonymousRead'],
  { params, query }: Visited,
): boolean {
  if (allowed === 'off' || audience === 'members') return false
  if (allowed === 'all') return true
  return (
    audience === 'code' &&
    !isId(params.target) &&
    !isOtherRef(params.target) &&
    !deeper.some((name) => query.has(name))
  )
}

/** Whether a page shows a commit by its id: search engines are to keep what a branch has now. */
export function namesCommit({ params }: Pick<Visited, 'params'>): boolean {
  return isId(params.target) || isId(params.id) || (params.range ?? '').split('...').some(isId)
}

/** Whether the revision of an address is the full name of a ref that is no branch and no tag. */
function isOtherRef(encoded: string | undefined): boolean {
  const rev = encoded === undefined ? undefined : parseTarget(encoded)?.rev
  return rev !== undefined && /^refs\/(?!heads\/|tags\/)/.test(rev)
}

/** Whether the revision of an address, before a path if there is one, is an id or the beginning of one. */
function isId(encoded: string | undefined): boolean {
  const target = encoded === undefined ? undefined : parseTarget(encoded)
  return target !== undefined && /^[0-9a-f]{7,64}(?=\.|$)/i.test(target.rev)
}
