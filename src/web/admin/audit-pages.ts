import { origins } from '#access/principal.ts'
import { Problem } from '#base/problem.ts'
import { auditActions } from '#events/audit/record.ts'
import { type PageContext, page, type View } from '../page.ts'
import { fieldText } from '../page-forms.ts'
import { pager } from '../pager.ts'
import { problemNotice } from '../problem-page.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'

type Entry = OperationValues['listAuditEntries'][number]
type Found = { value: Entry[]; next: string | undefined; problem?: Problem }

const filters = ['username', 'action', 'repository', 'via', 'credential', 'address'] as const

export const auditPages = [
  page('/-/audit', ['listAuditEntries'], {
    weight: 'light',
    audience: 'members',
    styles: 'forms',
    show: async (context) => auditView(context, await find(context)),
  }),
]

/** A page of entries; with an invalid filter none, and its problem. */
async function find({ readPage, query }: PageContext): Promise<Found> {
  const given = filters.map((name): [string, string | undefined] => [name, fieldText(query, name)])
  const cursor = fieldText(query, 'cursor')
  try {
    return await readPage('listAuditEntries', {
      query: { ...Object.fromEntries(given), cursor, limit: 100 },
    })
  } catch (error) {
    const isOfFilter =
      error instanceof Problem &&
      (error.code === 'invalid_request' || error.code === 'repository_not_found')
    if (!isOfFilter) throw error
    return { value: [], next: undefined, problem: error }
  }
}

function auditView(context: PageContext, { value: entries, next, problem }: Found): View {
  const { to, query, time } = context
  const value = (name: string) => query.get(name) ?? ''
  const choice = (name: string, label: string, options: readonly string[]) =>
    html`<select name="${name}" aria-label="${label}"><option value="">${label}: any</option>${options.map(
      (one) => html`<option${one === value(name) && html` selected`}>${one}</option>`,
    )}</select>`
  return {
    title: 'Audit log · svc',
    crumbs: [{ text: 'Audit log' }],
    json: '/audit',
    status: problem ? 400 : 200,
    body: html`<div class="page-head"><h1>Audit log</h1><p class="soft">Who changed what, with which token or key, and from where. Newest first.</p></div>
<form class="inline filter" action="${to.own('audit')}">
<input name="username" aria-label="User" placeholder="User" value="${value('username')}" maxlength="64">
<input name="repository" aria-label="Repository" placeholder="Repository" value="${value('repository')}" maxlength="100">
${choice('action', 'Action', auditActions)}
${choice('via', 'Via', origins)}
<input name="address" aria-label="Address" placeholder="Address" value="${value('address')}" maxlength="45">
<input name="credential" aria-label="Id of a token or key" placeholder="Id of a token or key" value="${value('credential')}" maxlength="26">
<button>Filter</button>
${filters.some((name) => query.get(name)) && html`<a class="button quiet" href="${to.own('audit')}">Clear</a>`}
</form>
${problem && problemNotice({ ...context, problem })}
${entries.length === 0 && html`<p class="card pad soft">${next === undefined ? 'There are no entries.' : 'No entry of this part of the log matches; older ones may.'}</p>`}
${
  entries.length > 0 &&
  html`<table class="card stacked audit"><caption class="hidden">Audit entries</caption>
<thead><tr><th scope="col">Action</th><th scope="col">Who</th><th scope="col">Repository</th><th scope="col">From</th><th scope="col">Details</th><th scope="col" class="end">When</th></tr></thead>
<tbody>${entries.map(
    ({
      seq,
      action,
      actor,
      repoName,
      repositoryId,
      via,
      address,
      data,
      createdAt,
    }) => html`<tr id="${seq}">
<td><b>${action}</b></td>
<td title="${actor.id}">${actor.username}</td>
<td>${repoName === null ? repositoryId !== null && html`<span class="soft" title="${repositoryId}">gone</span>` : html`<a class="linked" href="${to.repository(repoName)}">${repoName}</a>`}</td>
<td class="soft">${via}${address !== null && html` <span class="nowrap">${address}</span>`}</td>
<td class="details">${details(data)}</td>
<td class="end soft">${time.age(createdAt)}</td></tr>`,
  )}</tbody></table>`
}
${pager(context, next, { first: 'Newest', next: 'Older' })}`,
  }
}

const shortLength = 100

/** The details of an entry in a line; if they are long, its start, and all of them when it is opened. */
function details(data: object): Html {
  const text = Object.entries(data)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(', ')
  if (text.length <= shortLength) return html`<span class="soft">${text}</span>`
  return html`<details><summary class="soft">${text.slice(0, shortLength)}…</summary><pre>${JSON.stringify(data, null, 2)}</pre></details>`
}
