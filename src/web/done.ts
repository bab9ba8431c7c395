import type { IncomingHttpHeaders } from 'node:http'
import { type Content, type Html, html } from '../render/html.ts'
import { icon } from './icons.ts'
import type { Done, PageContext } from './page.ts'

type Form = { path: string; done?: Done }

const cookieName = 'svc-done'
const maxAgeSeconds = 30

/** The address of the page that follows a form, and the cookie by which this page, once, says what was done. */
export function toDonePage(
  address: string,
  form: Form,
  context: PageContext,
): { address: string; headers: Record<string, string> } {
  const { done } = form
  if (!done) return { address, headers: {} }
  const value = encodeURIComponent(`${form.path} ${done.subject?.(context) ?? ''}`)
  return {
    address: done.at === undefined ? address : `${address}#${done.at}`,
    headers: { 'set-cookie': toCookie(context, value, maxAgeSeconds) },
  }
}

export const clearDone = (context: Pick<PageContext, 'to'>): string => toCookie(context, '', 0)

function toCookie({ to }: Pick<PageContext, 'to'>, value: string, seconds: number): string {
  return `${cookieName}=${value}; Path=${to.prefix}/; Max-Age=${seconds}; HttpOnly; SameSite=Lax`
}

/** Reads the path of the form that led to a page, and what it changed. The sentences are not in the cookie, so no other site can write one. */
export function readDone({
  cookie = '',
}: IncomingHttpHeaders): { path: string; subject: string } | undefined {
  const [, value = ''] = new RegExp(`(?:^|; *)${cookieName}=([^;]*)`).exec(cookie) ?? []
  try {
    const [path = '', subject = ''] = decodeURIComponent(value).split(' ', 2)
    return path === '' ? undefined : { path, subject }
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
