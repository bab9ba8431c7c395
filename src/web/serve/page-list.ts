import type { IncomingHttpHeaders } from 'node:http'
import { adminPages } from '../admin/admin-pages.ts'
import { changePages } from '../changes/change-pages.ts'
import { cliLoginPages } from '../cli-login-pages.ts'
import { codePages } from '../code/code-pages.ts'
import { readDone } from '../done.ts'
import { editPages } from '../edit/edit-pages.ts'
import { historyPages } from '../history/history-pages.ts'
import { homePages } from '../home-pages.ts'
import { eventPages } from '../live/event-pages.ts'
import { livePages } from '../live/live-pages.ts'
import type { Page, PageAction, PageContext, PageRoute } from '../page.ts'
import { pushPages } from '../pushes/push-pages.ts'
import { artifactPages } from '../runs/run-artifacts.ts'
import { runListPages } from '../runs/run-list-page.ts'
import { runLogPages } from '../runs/run-log-pages.ts'
import { runPages } from '../runs/run-page.ts'
import { startRunPages } from '../runs/start-run-page.ts'
import { sessionPages } from '../session-pages.ts'
import { settingsPages } from '../settings/settings-pages.ts'
import { deliveryPages } from '../webhooks/delivery-pages.ts'
import { webhookActions } from '../webhooks/webhook-actions.ts'
import { webhookPages } from '../webhooks/webhook-pages.ts'

/** All pages and forms. */
export const pages: readonly PageRoute[] = [
  ...homePages,
  ...sessionPages,
  ...cliLoginPages,
  ...adminPages,
  ...settingsPages,
  ...webhookPages,
  ...deliveryPages,
  ...webhookActions,
  ...codePages,
  ...editPages,
  ...historyPages,
  ...changePages,
  ...runListPages,
  ...startRunPages,
  ...runPages,
  ...artifactPages,
  ...runLogPages,
  ...pushPages,
  ...eventPages,
  ...livePages,
]

/** What the form has done that led to a page, by the cookie of its response. */
export function doneOf(headers: IncomingHttpHeaders): PageContext['done'] {
  const { path, subject = '' } = readDone(headers) ?? {}
  const form = pages.find((one) => one.kind !== 'page' && one.path === path)
  return form?.kind !== 'page' && form?.done ? { ...form.done, subject } : undefined
}

/** The page with the form of an action. */
export function formPageOf({ formPage }: PageAction): Page | undefined {
  return pages.find((one): one is Page => one.kind === 'page' && one.path === formPage)
}
