import { grouped } from '../display-text.ts'
import { doneNotice } from '../done.ts'
import { icon } from '../icons.ts'
import { type Page, type PageContext, page, type View } from '../page.ts'
import { askButton, createForm, fieldText, formButton, otherProblem } from '../page-forms.ts'
import { choiceOf } from '../page-query.ts'
import { pager } from '../pager.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { deliveryStateOf, deliveryTicks, deliveryWords, toShortTime } from './delivery-ticks.ts'
import {
  deliveryBadge,
  healthBadge,
  healthReason,
  type ShownWebhook,
  webhookForm,
} from './webhook-parts.ts'
import { allWebhooksOf, readOperations, type WebhooksOf } from './webhooks-of.ts'

type Listed = OperationValues['listDeliveries'][number]

const statuses = ['failed', 'pending', 'success'] as const
const ticksInList = 24
const ticksOnPage = 100
const maxFailing = 1000

export const webhookPages = allWebhooksOf.flatMap(pagesOf)

function pagesOf(of: WebhooksOf): Page[] {
  const { path, toOperation } = of
  const [listWebhooks, listDeliveries] = [
    toOperation('listWebhooks'),
    toOperation('listDeliveries'),
  ]

  return [
    page(path, readOperations(of, 'listWebhooks', 'listDeliveries'), {
      weight: 'light',
      audience: 'members',
      styles: 'webhooks',
      async show(context) {
        const webhooks = await context.read(listWebhooks)
        const mayCreate = await context.may(toOperation('createWebhook'))
        const rows = await Promise.all(
          webhooks.map(async (webhook) => ({
            webhook,
            deliveries:
              (await context.tryRead(listDeliveries, {
                params: { id: webhook.id },
                query: { limit: ticksInList },
              })) ?? [],
          })),
        )
        return listView(of, context, rows, mayCreate)
      },
    }),
    page(`${path}/:id`, readOperations(of, 'getWebhook', 'listDeliveries'), {
      weight: 'light',
      audience: 'members',
      styles: 'webhooks',
      async show(context) {
        const { query } = context
        const webhook = await context.read(toOperation('getWebhook'))
        const status = choiceOf(query, 'status', statuses)
        const cursor = fieldText(query, 'cursor')
        const [newest, listed, failing, mayChange] = await Promise.all([
          context.read(listDeliveries, { query: { limit: ticksOnPage } }),
          context.readPage(listDeliveries, {
            query: { limit: 50, status, cursor },
          }),
          status === 'failed' && cursor === undefined ? failingOf(of, context) : [],
          // All of its forms need the same rights.
          context.may(toOperation('updateWebhook')),
        ])
        const all = { ...listed, value: [...failing, ...listed.value] }
        return webhookView(of, context, { webhook, newest, listed: all, status, mayChange })
      },
    }),
  ]
}

/** The deliveries that are tried again, which those who look for failures look for, too. */
async function failingOf({ toOperation }: WebhooksOf, { read }: PageContext): Promise<Listed[]> {
  const pending = await read(toOperation('listDeliveries'), {
    query: { limit: maxFailing, status: 'pending' },
  })
  return pending.filter((one) => deliveryStateOf(one) === 'failing')
}

function listView(
  of: WebhooksOf,
  context: PageContext,
  rows: { webhook: ShownWebhook; deliveries: Listed[] }[],
  mayCreate: boolean,
): View {
  const { time } = context
  const [name, address, place] = [of.name(context), of.address(context), of.place(context)]
  const form = webhookForm(context, address)
  return {
    title: `Webhooks · ${name} · svc`,
    ...place,
    crumbs: [...place.crumbs, { text: 'webhooks' }],
    body: html`<div class="page-head"><h1>Webhooks <span class="count">${rows.length}</span></h1>
<p class="soft">Each event is sent to these addresses, in order, and again until it arrives.</p></div>
${doneNotice(context)}${otherProblem(context, [form.form])}
${
  rows.length > 0 &&
  html`<ul class="card rows">${rows.map(
    ({ webhook, deliveries }) => html`<li class="row">
<div class="grow"><h2 class="row-title"><a href="${address}/${webhook.id}">${webhook.url}</a></h2>
<p class="soft">${webhook.events.join(', ')}${webhook.hasSecret && ', signed'}${webhook.pending > 0 && `, ${grouped(webhook.pending)} pending`}</p>
${webhook.health !== 'healthy' && html`<p class="soft">${healthReason(webhook, time)}</p>`}</div>
${deliveryTicks(deliveries, ticksInList)}
${healthBadge(webhook)}
</li>`,
  )}</ul>`
}
${
  mayCreate &&
  html`<section class="card pad form-card"><h2>Add a webhook</h2>${form.html}</section>`
}
${!mayCreate && rows.length === 0 && html`<p class="card pad soft">There are no webhooks.</p>`}`,
  }
}

function webhookView(
  of: WebhooksOf,
  context: PageContext,
  shown: {
    webhook: ShownWebhook
    newest: Listed[]
    listed: { value: Listed[]; next: string | undefined }
    status: string | undefined
    mayChange: boolean
  },
): View {
  const { time } = context
  const { webhook, newest, listed, mayChange } = shown
  const [name, list, place] = [of.name(context), of.address(context), of.place(context)]
  const address = `${list}/${webhook.id}`
  const edit = webhookForm(context, `${address}/edit`, webhook)
  const replay = replayForm(context, address)
  const reason = healthReason(webhook, time)
  return {
    title: `Webhook · ${name} · svc`,
    ...place,
    crumbs: [...place.crumbs, { text: 'webhooks', href: list }, { text: hostOf(webhook.url) }],
    json: `${place.json}/${webhook.id}`,
    body: html`<div class="page-head"><h1 class="grow">${webhook.url}</h1>
${
  mayChange &&
  html`<div class="actions">${formButton(`${address}/ping`, 'Ping', { className: '' })}
${formButton(`${address}/${webhook.enabled ? 'disable' : 'enable'}`, webhook.enabled ? 'Disable' : 'Enable', { className: webhook.enabled ? '' : 'primary' })}</div>`
}
<p class="soft inline">${healthBadge(webhook)} ${reason}</p></div>
${doneNotice(context)}${otherProblem(context, [edit.form, replay.form])}
${replayNotice(context, address)}
<div class="with-side"><div>
<section class="card pad health">${deliveryTicks(newest, ticksOnPage)}
<p class="soft">${newest.length > 0 && `Last ${newest.length}: `}${deliveryWords(newest)}</p></section>
<section>${deliveriesTable(context, address, shown)}
${pager(context, listed.next, { first: 'Newest', next: 'Older' })}</section>
</div>
<aside class="side" aria-label="About the webhook">
<section><h2>About</h2><ul>
<li>${icon('webhook')}${webhook.events.join(', ')}</li>
<li>${icon(webhook.hasSecret ? 'lock' : 'warning')}${webhook.hasSecret ? 'signed' : 'not signed'}</li>
${webhook.secretExpiresAt !== null && html`<li>${icon('key')}<span>previous secret until ${time.age(webhook.secretExpiresAt)}</span></li>`}
<li>${icon('history')}<span>created ${time.age(webhook.createdAt)}</span></li>
${webhook.pending > 0 && html`<li>${icon('waiting')}${grouped(webhook.pending)} pending</li>`}
</ul></section>
${
  mayChange &&
  html`<section class="folded">
<details class="fold"${edit.isSent && html` open`}><summary>Edit</summary>${edit.html}</details>
<details class="fold"${replay.form.isSent && html` open`}><summary>Replay a period</summary>${replay.html}</details>
${askButton(context, { action: `${address}/delete`, verb: 'Delete', object: 'the webhook', isInRow: false, consequence: 'Its deliveries are deleted, too.', isSensitive: true })}
</section>`
}
</aside></div>`,
  }
}

function deliveriesTable(
  { time }: PageContext,
  address: string,
  {
    listed,
    status,
    webhook,
  }: { listed: { value: Listed[] }; status: string | undefined; webhook: ShownWebhook },
): Html {
  const filter = (text: string, wanted: string | undefined) =>
    html`<a href="${address}${wanted !== undefined && `?status=${wanted}`}"${wanted === status && html` aria-current="true"`}>${text}</a>`
  return html`<div class="section-head"><h2>Deliveries</h2><nav class="filters" aria-label="State">${filter('All', undefined)}${statuses.map((one) => filter(one, one))}</nav></div>
${
  listed.value.length === 0
    ? html`<p class="card pad soft">There is none${status !== undefined && ` that is ${status}`}.</p>`
    : html`<table class="card stacked"><caption class="hidden">Deliveries to ${webhook.url}</caption>
<thead><tr><th scope="col">Event</th><th scope="col">State</th><th scope="col">Response</th><th scope="col">Attempts</th><th scope="col">Took</th><th scope="col" class="end">Created</th></tr></thead>
<tbody>${listed.value.map(
        (one) => html`<tr>
<td><a class="linked" href="${address}/deliveries/${one.id}">${one.event}${one.seq !== null && ` ${one.seq}`}</a>${'namespace' in one && one.repoName !== null && html` <span class="soft">${one.repoName}</span>`}</td>
<td>${deliveryBadge(one)}</td>
<td>${one.responseStatus ?? (one.error === null ? '' : html`<span class="soft">${one.error}</span>`)}</td>
<td class="soft nowrap">${one.attempts} of ${one.maxAttempts}</td>
<td class="soft nowrap">${one.duration !== null && toShortTime(one.duration)}</td>
<td class="end soft">${time.age(one.createdAt)}</td></tr>`,
      )}</tbody></table>`
}`
}

function replayForm(context: PageContext, address: string) {
  const form = createForm(context, `${address}/replay`)
  const day = new Date(context.time.at - 86_400_000).toISOString().slice(0, 16)
  return {
    form,
    html: form.render(html`${form.text({ name: 'since', label: 'From (UTC)', type: 'datetime-local', isRequired: true, value: day })}
${form.text({ name: 'until', label: 'To (UTC)', type: 'datetime-local', help: 'Until now if empty.' })}
${form.checks({ name: 'onlyFailed', label: 'Which', choices: [{ value: 'true', text: 'Only deliveries that did not arrive', isChecked: true }] })}
<button class="primary">Replay</button>`),
  }
}

/** The result of a replay, with a button for the rest of it. */
function replayNotice({ query }: PageContext, address: string): Html | false {
  const [replayed = 0, created = 0] = ['replayed', 'created'].map((name) => Number(query.get(name)))
  if (!query.has('replayed') || !Number.isSafeInteger(replayed + created)) return false
  const hidden = Object.fromEntries(
    ['since', 'until', 'onlyFailed', 'after'].map((name) => [name, query.get(name) ?? '']),
  )
  return html`<div class="notice good" role="status">${icon('check')}<p>${grouped(replayed)} deliveries are sent again, and ${grouped(created)} for the first time.</p>${query.has('after') && formButton(`${address}/replay`, 'Replay the rest', { hidden })}</div>`
}

function hostOf(url: string): string {
  return URL.parse(url)?.host ?? url
}
