import { holds } from '#access/may.ts'
import { doneNotice } from '../done.ts'
import { action, type PageContext, page, type View } from '../page.ts'
import { createForm, fieldText, formButton, otherProblem, requireTyped } from '../page-forms.ts'
import { pager, wholeCount } from '../pager.ts'
import type { OperationValues } from '../read-operations.ts'
import { html } from '../render/html.ts'

type Deleted = OperationValues['listDeletedRepositories'][number]

export const deletedPages = [
  page('/-/deleted', ['listDeletedRepositories'], {
    weight: 'light',
    audience: 'members',
    styles: 'forms',
    async show(context) {
      const { value, next } = await context.readPage('listDeletedRepositories', {
        query: { limit: 50, cursor: fieldText(context.query, 'cursor') },
      })
      return deletedView(context, value, next)
    },
  }),
  action('/-/deleted/:id/restore', 'restoreRepository', {
    formPage: '/-/deleted',
    input: ({ fields }) => ({ body: { name: fieldText(fields, 'name') } }),
    redirectTo: ({ to }, value) => to.repository(String(Object(value).name)),
  }),
  action('/-/deleted/:id/purge', 'purgeRepository', {
    formPage: '/-/deleted',
    isSensitive: true,
    input({ fields }) {
      requireTyped(fields, 'confirm', fields.get('name') ?? '')
      return {}
    },
    redirectTo: ({ to }) => to.own('deleted'),
    done: { text: 'The repository is removed for good.' },
  }),
]

function deletedView(context: PageContext, deleted: Deleted[], next: string | undefined): View {
  const { to, caller, time } = context
  const mayChange = holds(caller, 'repo:delete')
  const justDeleted = deleted
    .toSorted((one, other) => other.deletedAt - one.deletedAt)
    .find(({ name }) => name === context.done?.subject)
  const rows = deleted.map((one) => ({
    ...one,
    restore: createForm(context, to.own(`deleted/${one.id}/restore`)),
    purge: createForm(context, to.own(`deleted/${one.id}/purge`)),
  }))
  return {
    title: 'Deleted repositories · svc',
    crumbs: [{ text: 'Deleted repositories' }],
    json: '/deleted-repos',
    body: html`<div class="page-head"><h1>Deleted repositories${wholeCount(context, deleted, next)}</h1>
<p class="soft">They can be restored with everything that belonged to them until they are removed for good.</p></div>
${doneNotice(context, { more: mayChange && justDeleted && formButton(to.own(`deleted/${justDeleted.id}/restore`), 'Restore') })}${otherProblem(
  context,
  rows.flatMap(({ restore, purge }) => [restore, purge]),
)}
${deleted.length === 0 && html`<p class="card pad soft">There are no deleted repositories.</p>`}
${
  deleted.length > 0 &&
  html`<ul class="card rows">${rows.map(
    ({ name, ownerUsername, deletedAt, purgeAt, restore, purge }) => html`<li class="row">
<div class="grow"><h2 class="row-title">${name}</h2>
<p class="soft">of <b>${ownerUsername}</b>, deleted ${time.age(deletedAt)}, removed for good ${time.age(purgeAt)}</p>
${
  mayChange &&
  html`<div class="folds"><details class="fold"${restore.isSent && html` open`}><summary>Restore</summary>${restore.render(html`${restore.text({ name: 'name', label: 'Name', value: name, maxLength: 201, help: 'Another one if the old one is taken.' })}<button class="primary">Restore</button>`)}</details>
<details class="fold"${purge.isSent && html` open`}><summary>Remove for good</summary>${purge.render(html`<input type="hidden" name="name" value="${name}">${purge.text({ name: 'confirm', label: `Type “${name}” to confirm`, isRequired: true })}<button class="danger">Remove for good</button>`)}</details></div>`
}</div>
</li>`,
  )}</ul>`
}
${pager(context, next)}`,
  }
}
