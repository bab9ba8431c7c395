import { matchesPattern } from '../../base/text-pattern.ts'
import { isRefName } from '../../git/refs/ref-name.ts'
import { invalid } from '../../http/validation.ts'
import { type Html, html } from '../../render/html.ts'
import { icon } from '../icons.ts'
import type { PageContext } from '../page.ts'
import type { OperationValues } from '../read-operations.ts'

type Rules = OperationValues['listBranchProtections']['rules']

/** The rules of protected branches or tags; none for those who may not see them. */
export async function rulesOf(
  { tryRead }: PageContext,
  operation: 'listBranchProtections' | 'listTagProtections',
): Promise<Rules> {
  return (await tryRead(operation))?.rules ?? []
}

/** The full name of the branch or tag that was typed into a form. Throws `invalid_request`. */
export function typedRef(fields: URLSearchParams, prefix: 'refs/heads/' | 'refs/tags/'): string {
  const ref = prefix + (fields.get('name')?.trim() ?? '')
  if (isRefName(ref)) return ref
  const detail =
    'Git does not accept this name: it has no spaces, no two dots in a row, and none of ~ ^ : ? * [ \\'
  throw invalid([{ pointer: '/name', detail }])
}

const rulesFor = (name: string, rules: Rules) =>
  rules.filter(({ pattern }) => matchesPattern(name, pattern))

/** Whether some rule lets no one delete a ref, not even owners. */
export function isKept(name: string, rules: Rules): boolean {
  return rulesFor(name, rules).some(({ owners }) => owners !== 'any')
}

/** That a ref is protected, and by which rules. */
export function ruleBadge(name: string, rules: Rules): Html {
  const own = rulesFor(name, rules)
  const texts = own.map(({ pattern, owners, requires }) => {
    const parts = [
      pattern !== name && `by ${pattern}`,
      owners === 'fast-forward' && 'owners: fast-forward only',
      owners === 'none' && 'owners: no changes',
      requires.length > 0 && `requires ${requires.join(', ')}`,
    ]
    return parts.filter((part) => part !== false).join(', ')
  })
  const about = texts.filter((text) => text !== '').join('; ')
  return html`<span class="badge">${icon('lock')}protected</span>${about !== '' && html`<span class="rule soft">${about}</span>`}`
}

type Deletion = { action: string; ref: string; expected: string; label: string }

/** A button that asks before a ref is deleted. */
export function deletionMenu({ action, ref, expected, label }: Deletion): Html {
  return html`<details class="menu deletion"><summary class="button quiet small danger" aria-label="Delete ${label}">Delete</summary>
<form method="post" action="${action}" class="menu-list">
<input type="hidden" name="ref" value="${ref}"><input type="hidden" name="expected" value="${expected}">
<p>Delete ${label}?</p><p class="soft">The push can be undone.</p>
<button class="danger">Delete</button></form></details>`
}

export function refPager(
  address: string,
  cursor: string | undefined,
  next: string | undefined,
): Html | false {
  return (
    (cursor !== undefined || next !== undefined) &&
    html`<nav class="pager" aria-label="Pages">
${cursor !== undefined && html`<a class="button" href="${address}">First page</a>`}
${next !== undefined && html`<a class="button" href="${address}?${new URLSearchParams({ cursor: next }).toString()}" rel="next">Next page</a>`}</nav>`
  )
}
