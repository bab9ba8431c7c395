import { subscribableKinds } from '#webhooks/subscribable-kinds.ts'
import { icon } from '../icons.ts'
import type { PageContext } from '../page.ts'
import { createForm } from '../page-forms.ts'
import type { PageTime } from '../page-time.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { deliveryStateOf } from './delivery-ticks.ts'

export type ShownWebhook = OperationValues['getWebhook']
type Delivery = Pick<OperationValues['listDeliveries'][number], 'status' | 'error'>

/** The state of a webhook in a word. */
export function healthBadge({ health }: ShownWebhook): Html {
  if (health === 'healthy') return html`<span class="badge good">${icon('check')}healthy</span>`
  if (health === 'failing') return html`<span class="badge bad">${icon('warning')}failing</span>`
  return html`<span class="badge">${icon('dash')}disabled</span>`
}

/** Why it is in this state. */
export function healthReason(webhook: ShownWebhook, time: PageTime): Html | false {
  const { health, failingSince, disabledAt, disabledReason } = webhook
  if (health === 'failing' && failingSince !== null)
    return html`<span>Attempts began to fail ${time.age(failingSince)}.</span>`
  if (health === 'disabled' && disabledAt !== null)
    return html`<span>Disabled ${time.age(disabledAt)}: ${disabledReason}</span>`
  return false
}

/** The state of a delivery in a word. */
export function deliveryBadge(delivery: Delivery): Html {
  const state = deliveryStateOf(delivery)
  if (state === 'success') return html`<span class="badge good">${icon('check')}success</span>`
  if (state === 'failed') return html`<span class="badge bad">${icon('cross')}failed</span>`
  if (state === 'failing') return html`<span class="badge bad">${icon('again')}failing</span>`
  return html`<span class="badge busy">${icon('waiting')}pending</span>`
}

/** The form of a new webhook, or of changes to one. */
export function webhookForm(context: PageContext, action: string, webhook?: ShownWebhook) {
  const form = createForm(context, action)
  const about = { push: 'branches and tags change', workflow: 'runs start and end' }
  const content = html`${form.text({ name: 'url', label: 'URL', type: 'url', isRequired: true, maxLength: 2048, placeholder: 'https://example.com/hook', value: webhook?.url ?? '', help: 'Receives a POST with JSON for each event.' })}
${form.checks({ name: 'events', label: 'Events', choices: subscribableKinds.map((value) => ({ value, text: value, help: about[value], isChecked: webhook?.events.includes(value) ?? true })) })}
${form.text({ name: 'secret', label: 'Secret', type: 'password', maxLength: 500, help: secretHelp(webhook) })}
${
  webhook?.hasSecret &&
  html`<div class="columns">${form.select({
    name: 'keepPreviousSecretSeconds',
    label: 'Also sign with the previous one',
    value: '86400',
    options: [
      { value: '86400', text: 'for a day' },
      { value: '3600', text: 'for an hour' },
      { value: '0', text: 'no longer' },
    ],
  })}
${form.checks({ name: 'unsigned', label: 'Signatures', choices: [{ value: 'true', text: 'Stop signing' }] })}</div>`
}
${form.token()}
<button class="primary">${webhook === undefined ? 'Add webhook' : 'Save'}</button>`
  return { isSent: form.isSent, html: form.render(content), form }
}

function secretHelp(webhook: ShownWebhook | undefined): string {
  if (webhook?.hasSecret) return 'Leave empty to keep the current secret, which is never shown.'
  return 'Signs deliveries, so that the receiver knows where they come from. Optional, and never shown again.'
}
