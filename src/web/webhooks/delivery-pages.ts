import { grouped } from '../display-text.ts'
import { doneNotice } from '../done.ts'
import { icon } from '../icons.ts'
import { type PageContext, page, type View } from '../page.ts'
import { formButton, otherProblem } from '../page-forms.ts'
import type { PageTime } from '../page-time.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { toShortTime } from './delivery-ticks.ts'
import { deliveryBadge } from './webhook-parts.ts'
import { allWebhooksOf, readOperations, type WebhooksOf } from './webhooks-of.ts'

type Shown = OperationValues['getDelivery']
type Attempt = Shown['history'][number]

const bodyMaxLength = 100_000

export const deliveryPages = allWebhooksOf.map((of) =>
  page(`${of.path}/:id/deliveries/:delivery`, readOperations(of, 'getDelivery'), {
    weight: 'light',
    audience: 'members',
    styles: 'webhooks',
    async show(context) {
      const params = { deliveryId: context.params.delivery ?? '' }
      const delivery = await context.read(of.toOperation('getDelivery'), { params })
      const mayRetry = await context.may(of.toOperation('retryDelivery'), params)
      return deliveryView(of, context, delivery, mayRetry)
    },
  }),
)

function deliveryView(
  of: WebhooksOf,
  context: PageContext,
  delivery: Shown,
  mayRetry: boolean,
): View {
  const { time } = context
  const [name, list, place] = [of.name(context), of.address(context), of.place(context)]
  const { id, webhookId, event, seq, status, url, attempts, maxAttempts, history } = delivery
  const webhook = `${list}/${webhookId}`
  const address = `${webhook}/deliveries/${id}`
  return {
    title: `Delivery of ${event} · ${name} · svc`,
    ...place,
    crumbs: [
      ...place.crumbs,
      { text: 'webhooks', href: list },
      { text: URL.parse(url)?.host ?? url, href: webhook },
      { text: `${event}${seq === null ? '' : ` ${seq}`}` },
    ],
    json: `${place.json}/${webhookId}/deliveries/${id}`,
    body: html`<div class="page-head"><h1>${event}${seq !== null && html` <span class="soft">${seq}</span>`}</h1>
<div class="actions">${status === 'pending' && html`<a class="button" href="${address}">${icon('again')}Refresh</a>`}
${mayRetry && formButton(`${address}/retry`, html`${icon('again')}Send again`, { className: '' })}</div>
<p class="soft inline">${deliveryBadge(delivery)} to <code>${url}</code></p></div>
${doneNotice(context)}${otherProblem(context)}
<div class="with-side"><div>
<section><h2 class="gap">Attempts</h2>
${history.length === 0 && html`<p class="card pad soft">No attempts yet.</p>`}
${history.toReversed().map((attempt, index) => attemptView(attempt, { isOpen: index === 0, time }))}
${history.length < attempts && html`<p class="help">The last ${history.length} of ${grouped(attempts)} attempts.</p>`}</section>
<section><h2 class="gap">Request body</h2>${bodyView(delivery.body)}</section>
</div>
<aside class="side" aria-label="About the delivery"><section><h2>About</h2><ul>
<li>${icon('history')}<span>created ${time.age(delivery.createdAt)}</span></li>
<li>${icon('again')}${grouped(attempts)} of ${maxAttempts} attempts</li>
${delivery.nextAttemptAt !== null && html`<li>${icon('waiting')}<span>next ${time.age(delivery.nextAttemptAt)}</span></li>`}
${delivery.completedAt !== null && html`<li>${icon(status === 'success' ? 'check' : 'cross')}<span>ended ${time.age(delivery.completedAt)}</span></li>`}
${delivery.previousSeq !== null && html`<li>${icon('link')}${delivery.previousSeq === 0 ? 'the first event' : `after event ${delivery.previousSeq}`}</li>`}
</ul><p class="help">Id <code>${id}</code></p></section></aside></div>`,
  }
}

function attemptView(
  attempt: Attempt,
  { isOpen, time }: { isOpen: boolean; time: PageTime },
): Html {
  const { attempt: number, trigger, startedAt, duration, responseStatus, error } = attempt
  const { requestHeaders, responseHeaders, responseBody } = attempt
  const isGood = error === null
  return html`<details class="card attempt"${isOpen && html` open`}>
<summary><span class="${isGood ? 'good' : 'bad'}">${icon(isGood ? 'check' : 'cross')}</span> <b>Attempt ${number}</b> <span class="soft">${responseStatus === null ? 'no response' : `status ${responseStatus}`}${trigger === 'manual' && ', by hand'}</span> <span class="soft time">${toShortTime(duration)}, ${time.age(startedAt)}</span></summary>
<div class="pad">
${error !== null && html`<p class="bad">${error}</p>`}
${headersView('Request headers', requestHeaders)}
${headersView('Response headers', responseHeaders)}
${responseBody !== '' && html`<h3>Response</h3><pre tabindex="0" aria-label="Response">${responseBody}</pre>`}
</div></details>`
}

function headersView(title: string, headers: Record<string, string>): Html | false {
  const all = Object.entries(headers)
  if (all.length === 0) return false
  return html`<h3>${title}</h3><dl class="facts headers">${all.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`
}

/** The body as indented JSON. */
function bodyView(body: string | null): Html {
  if (body === null) return html`<p class="card pad soft">The body has not been created yet.</p>`
  const text = indent(body)
  const shown = text.slice(0, bodyMaxLength)
  return html`<pre class="card pad body" tabindex="0" aria-label="Request body">${shown}</pre>
${shown.length < text.length && html`<p class="help">The first ${grouped(bodyMaxLength)} of ${grouped(text.length)} characters; the API has all of it.</p>`}`
}

function indent(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2)
  } catch {
    return json
  }
}
