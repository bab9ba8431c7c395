import { hash } from 'node:crypto'
import { documentPlace } from '../code/document-view.ts'
import { type IconName, icon } from '../icons.ts'
import type { PageContext, SharedContext } from '../page.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'

export type ShownChange = OperationValues['getChange']
export type ListedChange = OperationValues['listChanges'][number]

export const changeStates = ['open', 'landed', 'abandoned'] as const

type State = (typeof changeStates)[number]

export const stateWords = {
  open: { shape: 'commit', tone: 'accent', word: 'Open' },
  landed: { shape: 'check', tone: 'good', word: 'Landed' },
  abandoned: { shape: 'cross', tone: '', word: 'Abandoned' },
} as const satisfies Record<State, { shape: IconName; tone: string; word: string }>

/** The state of a change as a badge, with its word. */
export function changeBadge({ state }: Pick<ListedChange, 'state'>): Html {
  const { shape, tone, word } = stateWords[state]
  return html`<span class="badge ${tone}">${icon(shape)}${word}</span>`
}

/** Who proposes a change, for which branch, and where it comes from. */
export function proposalOf(
  { username, target, source, topic }: ListedChange,
  linkTo: (branch: string) => string,
): Html {
  const branch = (name: string) => html`<a href="${linkTo(name)}"><code>${name}</code></a>`
  return html`by ${username} for ${branch(target)}${
    source !== null ? html` from ${branch(source)}` : topic !== null && html`, topic ${topic}`
  }`
}

/** A text of a user, as Markdown with links to files of a revision; undefined when it cannot be rendered. */
export async function renderText(
  context: PageContext,
  { kind, text, rev }: { kind: 'change' | 'comment'; text: string; rev: string },
): Promise<Html | undefined> {
  const place = documentPlace(context, context.params.name ?? '', rev, '')
  const key = [kind, hash('sha256', text, 'base64url'), place.src].join('\n')
  return context.render(key, { kind: 'markdown', text, place })
}

/** A text that is shown as it was typed. */
export function plainText(text: string): Html {
  return html`<pre class="message">${text}</pre>`
}

/** The address of the change of a page, or of something below it. */
export function changeLink(
  { to, params }: Pick<SharedContext, 'to' | 'params'>,
  { path = '', query = {} }: ChangePlace = {},
): string {
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)]],
  )
  const search = given.length === 0 ? '' : `?${new URLSearchParams(given)}`
  return to.of(params.name ?? '', `changes/${params.number}${path}${search}`)
}

type ChangePlace = { path?: string; query?: Record<string, string | number | undefined> }
