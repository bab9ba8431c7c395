import type { IncomingHttpHeaders } from 'node:http'
import { readCookies } from './cookies.ts'
import { icon } from './icons.ts'
import type { Done, PageContext } from './page.ts'
import { type Content, type Html, html } from './render/html.ts'

type Form = { path: string; done?: Done }

const cookieName = 'svc-done'
const maxAgeSeconds = 30

/** The address of the page that follows a form, and the cookie by which this page, once, says what was done. */
export function toDonePage(
  address: string,
  { path, done }: Form,
  result: { context: PageContext; value: unknown },
): { address: string; headers: Record<string, string> } {
  if (!done) return { address, headers: {} }
  const value = encodeURIComponent(`${path} ${done.subject?.(result.context, result.value) ?? ''}`)
  return {
    address: done.at === undefined ? address : `${address}#${done.at}`,
    headers: { 'set-cookie': toCookie(result.context, address, { value, maxAgeSeconds }) },
  }
}

/** Removes the cookie of a page. */
export const clearDone = (context: PageContext): string =>
  toCookie(context, context.to.api(context.url), { value: '', maxAgeSeconds: 0 })

function toCookie(
  { baseUrl }: PageContext,
  address: string,
  { value, maxAgeSeconds: seconds }: { value: string; maxAgeSeconds: number },
): string {
  const secure = baseUrl.startsWith('https:') ? '; Secure' : ''
  const path = address.replace(/\?.*/, '')
  return `${cookieName}=${value}; Path=${path}; Max-Age=${seconds}; HttpOnly; SameSite=Lax${secure}`
}

/**
 * Reads the path of the form that led to a page, and its subject. The sentences are not in the cookie, so no other site can
 * write one.
 */
export function readDone({
  cookie = '',
}: IncomingHttpHeaders): { path: string; subject: string } | undefined {
  const [value = ''] = readCookies(cookie, cookieName)
  try {
    const [, path, subject = ''] = /^(\S+) (.*)$/.exec(decodeURIComponent(value)) ?? []
    return path === undefined ? undefined : { path, subject }
  } catch {
    return undefined
  }
}

/** What was done, if it is to be shown here; `more` is how to undo it. */
export function doneNotice(
  { done }: Pick<PageContext, 'done'>,
  { at, more }: { at?: string; more?: Content } = {},
): Html | undefined {
  if (!done || done.at !== at) return undefined
  return html`<div class="notice good" role="status">${icon('check')}<p class="grow">${done.text}</p>${more}</div>`
}
