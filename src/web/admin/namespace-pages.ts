import { roles } from '#access/roles.ts'
import { doneNotice } from '../done.ts'
import { icon } from '../icons.ts'
import { action, type PageContext, page, type View } from '../page.ts'
import { askButton, createForm, fieldText, otherProblem, type PageForm } from '../page-forms.ts'
import { pager } from '../pager.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { roleWords, unknownBadge } from '../role-words.ts'
import { usageSection } from './namespace-usage-section.ts'

const path = '/-/namespaces/:namespace'

export const namespacePages = [
  page('/-/namespaces', ['listNamespaces'], {
    weight: 'light',
    audience: 'members',
    styles: 'forms',
    show: listView,
  }),
  action('/-/namespaces', 'createNamespace', {
    formPage: '/-/namespaces',
    input: ({ fields }) => ({ body: { name: fieldText(fields, 'name') ?? '' } }),
    redirectTo: ({ to, fields }) => to.namespace(fieldText(fields, 'name') ?? ''),
  }),
  page(path, ['getNamespace', 'listRepositories', 'listNamespaceMembers', 'getNamespaceUsage'], {
    weight: 'light',
    audience: 'members',
    styles: 'forms',
    show: namespaceView,
  }),
  action(`${path}/members`, 'setNamespaceMember', {
    formPage: path,
    input: ({ fields }) => ({
      params: { member: fieldText(fields, 'member') ?? '' },
      body: { role: fieldText(fields, 'role') ?? '' },
    }),
    redirectTo: toNamespace,
    done: { text: 'The member is saved.' },
  }),
  action(`${path}/members/remove`, 'removeNamespaceMember', {
    formPage: path,
    input: ({ fields }) => ({ params: { member: fieldText(fields, 'member') ?? '' } }),
    redirectTo: toNamespace,
    done: { text: 'The member is removed.' },
  }),
]

function toNamespace({ to, params }: PageContext): string {
  return to.namespace(params.namespace ?? '')
}

async function listView(context: PageContext): Promise<View> {
  const { to, may, readPage, query } = context
  const [{ value: namespaces, next }, mayCreate] = await Promise.all([
    readPage('listNamespaces', { query: { limit: 100, cursor: fieldText(query, 'cursor') } }),
    may('createNamespace'),
  ])
  const form = createForm(context, to.own('namespaces'))
  return {
    title: 'Namespaces · svc',
    crumbs: [{ text: 'Namespaces' }],
    json: '/namespaces',
    body: html`<div class="page-head"><h1>Namespaces</h1>
<p class="soft">Names before those of repositories, whose members have a role in all of these.</p></div>
${namespaces.length === 0 && html`<p class="card pad soft">There are no namespaces that you can see.</p>`}
${
  namespaces.length > 0 &&
  html`<ul class="card rows">${namespaces.map(
    ({ name, role }) =>
      html`<li class="row"><a class="grow" href="${to.namespace(name)}"><b>${name}</b></a>${role !== null && html`<span class="badge">${role}</span>`}</li>`,
  )}</ul>`
}
${pager(context, next)}
${
  mayCreate &&
  html`<section class="card pad"><h2>New namespace</h2>
${form.render(html`${form.text({ name: 'name', label: 'Name', isRequired: true, maxLength: 100, help: 'Letters, digits, hyphens, underscores and dots. No repository has the same name.' })}
<button class="primary">Create</button>`)}</section>`
}`,
  }
}

async function namespaceView(context: PageContext): Promise<View> {
  const { to, time, read, readPage, tryRead, may, params, query } = context
  const { name, role } = await read('getNamespace')
  const cursor = fieldText(query, 'cursor')
  const [{ value: repositories, next }, members, usage, mayChange, mayCreate] = await Promise.all([
    readPage('listRepositories', { query: { limit: 50, namespace: name, cursor } }),
    role === null ? undefined : tryRead('listNamespaceMembers'),
    role === null ? undefined : tryRead('getNamespaceUsage'),
    may('setNamespaceMember', { member: '' }),
    may('createRepository'),
  ])
  const form = createForm(context, `${to.namespace(params.namespace ?? '')}/members`)
  const isMaintainer = role === 'maintain' || role === 'admin'
  return {
    title: `${name} · svc`,
    crumbs: [{ text: name }],
    json: `/namespaces/${encodeURIComponent(name)}`,
    body: html`${doneNotice(context)}${otherProblem(context, [form])}<div class="page-head"><h1>${name}</h1><div class="actions">
${role !== null && html`<a class="button" href="${to.namespace(name)}/settings">Settings</a>`}
${isMaintainer && html`<a class="button" href="${to.namespace(name)}/webhooks">Webhooks</a>`}
${mayCreate && isMaintainer && html`<a class="button primary" href="${to.own(`new?${new URLSearchParams({ namespace: name })}`)}">${icon('plus')}New</a>`}</div></div>
${repositories.length === 0 && html`<p class="card pad soft">There are no repositories that you can see.</p>`}
${
  repositories.length > 0 &&
  html`<ul class="card rows">${repositories.map(
    (one) =>
      html`<li class="row"><div class="grow"><a href="${to.repository(one.name)}"><b>${one.name}</b></a><p class="soft">${one.description}</p></div><span class="soft">${one.pushedAt === null ? 'never pushed' : html`pushed ${time.age(one.pushedAt)}`}</span></li>`,
  )}</ul>`
}
${pager(context, next)}
${members && memberSection(context, { members, form, mayChange })}${usage && usageSection(usage)}`,
  }
}

function memberSection(
  context: PageContext,
  {
    members,
    form,
    mayChange,
  }: { members: OperationValues['listNamespaceMembers']; form: PageForm; mayChange: boolean },
): Html {
  const address = `${context.to.namespace(context.params.namespace ?? '')}/members/remove`
  return html`<section id="members"><h2>Members</h2>
<div class="card"><ul>${members.map(
    ({
      member,
      role,
      unknown,
    }) => html`<li class="row">${icon('person', 'soft')}<span class="grow"><b>${member}</b>${unknown && html` ${unknownBadge(member)}`}</span><span class="badge">${role}</span>
${mayChange && askButton(context, { action: address, verb: 'Remove', object: member, consequence: 'What they may do by this role ends at once.', hidden: { member } })}</li>`,
  )}</ul>
${
  mayChange &&
  html`<details class="add"${form.isSent && html` open`}><summary>${icon('plus')}Add a member or change a role</summary><div class="pad">${form.render(html`${form.text({ name: 'member', label: 'User or group', isRequired: true, maxLength: 206, help: 'A username, or group: and the name of a group of the identity provider.' })}
${form.select({ name: 'role', label: 'Role', value: 'write', options: roles.map((value) => ({ value, text: roleWords[value] ?? value })) })}
<button class="primary">Save</button>`)}</div></details>`
}</div></section>`
}
