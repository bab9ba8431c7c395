import type { PageContext } from './page.ts'
import { type Html, html } from './render/html.ts'

/** Links to the first and the next page of a list; nothing if there is one page. */
export function pager(
  { url, to }: Pick<PageContext, 'url' | 'to'>,
  next: string | undefined,
  words: { first: string; next: string } = { first: 'First page', next: 'Next page' },
): Html | undefined {
  const [path = '', text] = url.split('?', 2)
  const query = new URLSearchParams(text)
  const isFirst = !query.has('cursor')
  if (isFirst && next === undefined) return undefined
  query.delete('cursor')
  const first = query.size === 0 ? path : `${path}?${query}`
  if (next !== undefined) query.set('cursor', next)
  return html`<nav class="pager" aria-label="Pages">
${!isFirst && html`<a class="button" href="${to.api(first)}">${words.first}</a>`}
${next !== undefined && html`<a class="button" rel="next" href="${to.api(`${path}?${query}`)}">${words.next}</a>`}
</nav>`
}

/** How many a list has, beside its heading; nothing if there are other pages of it. */
export function wholeCount(
  { query }: Pick<PageContext, 'query'>,
  listed: readonly unknown[],
  next: string | undefined,
): Html | false {
  const isComplete = next === undefined && !query.has('cursor')
  return isComplete && html` <span class="count">${listed.length}</span>`
}
