import { matchesPattern } from '#base/text-pattern.ts'
import { refFilterMaxLength } from '#browse/refs/ref-selection.ts'
import { isRefName } from '#git/refs/ref-name.ts'
import { invalid } from '#http/validation.ts'
import { formatRequirement } from '#repositories/requirement-text.ts'
import { grouped } from '../display-text.ts'
import { doneNotice } from '../done.ts'
import { icon } from '../icons.ts'
import type { Done, PageContext } from '../page.ts'
import { askButton, formButton } from '../page-forms.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'

/** With fewer refs, a field to filter them would add nothing. */
const minFiltered = 10

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
      requires.length > 0 && `requires ${requires.map(formatRequirement).join(', ')}`,
    ]
    return parts.filter((part) => part !== false).join(', ')
  })
  const about = texts.filter((text) => text !== '').join('; ')
  return html`<span class="badge">${icon('lock')}protected</span>${about !== '' && html`<span class="rule soft">${about}</span>`}`
}

type Deletion = { action: string; ref: string; expected: string; label: string }

/** Creates buttons that delete refs. Where the push can be undone, that is offered afterwards; elsewhere they ask. */
export async function deletionButtons(context: PageContext): Promise<(deletion: Deletion) => Html> {
  const isUndoable = context.canUndo && (await context.may('undoPush'))
  return ({ action, label, ...hidden }) => {
    const className = 'quiet small'
    if (isUndoable) {
      const options = { className: `${className} danger`, hidden, label: `Delete ${label}` }
      return formButton(action, 'Delete', options)
    }
    const consequence = 'This server keeps nothing to undo it with.'
    return askButton(context, {
      action,
      verb: 'Delete',
      object: label,
      consequence,
      hidden,
      className,
    })
  }
}

/** What is said after a ref is deleted. */
export const refDeleted = (kind: 'branch' | 'tag'): Done => ({
  text: `The ${kind} is deleted.`,
  subject: ({ fields }) => fields.get('ref') ?? '',
})

/** What a form of the list has done; a deletion with a button that undoes it. */
export async function refNotice(context: PageContext): Promise<Html | undefined> {
  const { done, tryRead, to, params, may } = context
  const ref = done?.subject ?? ''
  if (!isRefName(ref)) return doneNotice(context)
  const [push] = (await tryRead('listPushes', { query: { ref, limit: 1 } })) ?? []
  const isDeletion = push?.refs.some((change) => change.ref === ref && change.deleted)
  const undo =
    push?.undoable &&
    isDeletion &&
    (await may('undoPush', { id: push.id })) &&
    formButton(to.of(params.name ?? '', `pushes/${push.id}/undo`), html`${icon('undo')}Undo`)
  return doneNotice(context, { more: undo })
}

/** What the address of a list asks for. */
export function refListOf(query: URLSearchParams) {
  const filter = query.get('q')?.trim().slice(0, refFilterMaxLength) || undefined
  return { filter, cursor: query.get('cursor') ?? undefined }
}

type RefList = ReturnType<typeof refListOf> & {
  address: string
  kind: 'branches' | 'tags'
  /** How many are shown, and the cursor of those that follow. */
  count: number
  next: string | undefined
}

const isComplete = ({ filter, cursor, next }: RefList) =>
  filter === undefined && cursor === undefined && next === undefined

/** The parts of a page that a list of branches shares with one of tags. */
export function refListParts(list: RefList) {
  return {
    count: refCount(list),
    filter: refFilter(list),
    none: noneMatching(list),
    pager: refPager(list),
  }
}

/** The number of a list that is shown as a whole. */
function refCount(list: RefList): Html | false {
  return isComplete(list) && html` <span class="count">${grouped(list.count)}</span>`
}

/** A field for a part of the names, unless there are few. */
function refFilter(list: RefList): Html | false {
  const { filter, address, kind, count } = list
  if (isComplete(list) && count < minFiltered) return false
  return html`<form class="inline ref-filter" action="${address}" role="search" aria-label="${kind}">
<input type="search" name="q" value="${filter}" aria-label="Part of a name" placeholder="Part of a name" maxlength="${refFilterMaxLength}" spellcheck="false" autocomplete="off"><button>Filter</button>${
    filter !== undefined && html`<a class="button quiet" href="${address}">All ${kind}</a>`
  }</form>`
}

/** That a filter has no results; undefined without one. */
function noneMatching({ filter, kind }: RefList): Html | undefined {
  return filter === undefined
    ? undefined
    : html`<p class="card pad soft">No ${kind} with <b>${filter}</b> in their names.</p>`
}

/** A query with the parameters that have a value. */
export function toQueryString(parameters: Record<string, string | undefined>): string {
  const given = Object.entries(parameters).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value]],
  )
  return given.length > 0 ? `?${new URLSearchParams(given)}` : ''
}

function refPager({ address, filter, cursor, next }: RefList): Html | false {
  const to = (cursor?: string) => address + toQueryString({ q: filter, cursor })
  return (
    (cursor !== undefined || next !== undefined) &&
    html`<nav class="pager" aria-label="Pages">
${cursor !== undefined && html`<a class="button" href="${to()}">First page</a>`}
${next !== undefined && html`<a class="button" href="${to(next)}" rel="next">Next page</a>`}</nav>`
  )
}
