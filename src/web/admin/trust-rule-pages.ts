import { hasAllUserRights, isAdmin } from '#access/may.ts'
import { invalid } from '#http/validation.ts'
import { workloadPermissions } from '#identity/trust-rules/trust-rules.ts'
import { doneNotice } from '../done.ts'
import { action, type PageContext, page, type View } from '../page.ts'
import { createForm, fieldLines, fieldText, otherProblem, type PageForm } from '../page-forms.ts'
import { pager, wholeCount } from '../pager.ts'
import { type Html, html } from '../render/html.ts'
import { type ShownRule, trustRuleRow } from '../trust-rule-parts.ts'

const path = '/-/trust-rules'

export const trustRulePages = [
  page(path, ['listTrustRules'], {
    weight: 'light',
    audience: 'members',
    styles: 'forms',
    async show(context) {
      const { query, readPage, may, caller } = context
      const cursor = fieldText(query, 'cursor')
      const [{ value, next }, mayCreate, mayDelete] = await Promise.all([
        readPage('listTrustRules', { query: { limit: 100, cursor, ...placeIn(query) } }),
        may('createTrustRule'),
        may('deleteTrustRule', { id: '' }),
      ])
      const rights = { mayCreate: mayCreate && hasAllUserRights(caller), mayDelete }
      return rulesView(context, value, { next, ...rights })
    },
  }),
  action(path, 'createTrustRule', {
    formPage: path,
    isSensitive: true,
    input: ({ fields, query }) => ({ body: newRuleOf(fields, placeIn(query)) }),
    redirectTo: ({ to, query }) => to.own(`trust-rules${searchOf(query)}`),
    done: { text: 'The trust rule is added.' },
  }),
  action(`${path}/delete`, 'deleteTrustRule', {
    formPage: path,
    isSensitive: true,
    input: ({ fields }) => ({ params: { id: fields.get('rule') ?? '' } }),
    redirectTo: ({ to, query }) => to.own(`trust-rules${searchOf(query)}`),
    done: { text: 'The trust rule is deleted.' },
  }),
]

/** The repository or the namespace whose rules the page has; neither for all that the caller may see without. */
function placeIn(query: URLSearchParams) {
  return { repository: fieldText(query, 'repository'), namespace: fieldText(query, 'namespace') }
}

/** The query of the page for its place, with a question mark. */
function searchOf(query: URLSearchParams): string {
  const place = Object.entries(placeIn(query)).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value]],
  )
  return place.length === 0 ? '' : `?${new URLSearchParams(place)}`
}

function newRuleOf(fields: URLSearchParams, { repository, namespace }: ReturnType<typeof placeIn>) {
  return {
    name: fieldText(fields, 'name') ?? '',
    issuer: fieldText(fields, 'issuer') ?? '',
    audience: fieldText(fields, 'audience'),
    claims: Object.fromEntries((fieldLines(fields, 'claims') ?? []).map(claimIn)),
    namespace: namespace ?? fieldText(fields, 'namespace'),
    repositories: repository === undefined ? fieldLines(fields, 'repositories') : [repository],
    refs: fieldLines(fields, 'refs'),
    permissions: fields.getAll('permissions'),
  }
}

function claimIn(line: string): [string, string] {
  const [, name, pattern] = /^([^=]+)=(.*)$/.exec(line) ?? []
  if (name !== undefined && pattern !== undefined) return [name.trim(), pattern.trim()]
  throw invalid([{ pointer: '/claims', detail: 'must have the form name=pattern, one per line.' }])
}

function rulesView(
  context: PageContext,
  rules: ShownRule[],
  rest: { next: string | undefined; mayCreate: boolean; mayDelete: boolean },
): View {
  const { next, mayCreate, mayDelete } = rest
  const { to, query } = context
  const search = searchOf(query)
  const form = createForm(context, to.own(`trust-rules${search}`))
  const deleteAction = mayDelete ? to.own(`trust-rules/delete${search}`) : undefined
  const { about, ...place } = placeOf(context)
  return {
    title: 'Trust rules · svc',
    ...place,
    json: `/trust-rules${search}`,
    body: html`<div class="page-head"><h1>Trust rules${wholeCount(context, rules, next)}</h1>
<p class="soft">${about}: which jobs of CI services exchange their tokens for tokens of an hour.</p></div>
${doneNotice(context)}${otherProblem(context, [form])}
${
  rules.length === 0
    ? html`<p class="card pad soft">There are no trust rules.</p>`
    : html`<ul class="card rows">${rules.map((rule) => trustRuleRow(context, rule, { deleteAction }))}</ul>`
}
${pager(context, next)}
${mayCreate && html`<section class="card pad"><h2>Add a trust rule</h2>${ruleForm(context, form)}</section>`}`,
  }
}

function placeOf({ to, query, caller }: PageContext) {
  const { repository, namespace } = placeIn(query)
  const crumb = { text: 'trust rules' }
  if (repository !== undefined)
    return {
      ...{ repository, tab: 'settings' as const, about: html`Of <b>${repository}</b>` },
      crumbs: [{ text: 'settings', href: to.of(repository, 'settings') }, crumb],
    }
  if (namespace !== undefined) {
    const href = to.namespace(namespace)
    return {
      about: html`Of the namespace <b>${namespace}</b>`,
      crumbs: [{ text: namespace, href }, { text: 'settings', href: `${href}/settings` }, crumb],
    }
  }
  const about = isAdmin(caller) ? 'All of this service' : 'Those that you created'
  return { about, crumbs: [crumb] }
}

function ruleForm({ query }: PageContext, form: PageForm): Html {
  const { repository, namespace } = placeIn(query)
  const help =
    namespace === undefined
      ? 'Names, one per line.'
      : 'Names with the namespace, one per line. If empty, all of the namespace, also later ones.'
  return form.render(html`<div class="columns">
${form.text({ name: 'name', label: 'Name', isRequired: true, maxLength: 40, help: 'The journal shows its jobs by this name.' })}
${form.text({ name: 'issuer', label: 'Issuer', isRequired: true, maxLength: 250, isMono: true, placeholder: 'https://gitlab.com', help: 'The iss of their tokens.' })}
${form.text({ name: 'audience', label: 'Audience', maxLength: 250, isMono: true, help: 'The only aud of their tokens. If empty, the address of this service.' })}
</div>
${form.area({ name: 'claims', label: 'Claims', isRequired: true, placeholder: 'sub=repo:acme/site:ref:refs/heads/main', help: 'One per line; an asterisk stands for any characters.' })}
<div class="columns">
${repository === undefined && form.area({ name: 'repositories', label: 'Repositories', help })}
${repository === undefined && namespace === undefined && form.text({ name: 'namespace', label: 'Namespace', maxLength: 100, help: 'A rule of it is for all of its repositories, or those of the other field.' })}
${form.area({ name: 'refs', label: 'Push only these refs', placeholder: 'all', help: 'Patterns, one per line, such as refs/heads/built/*.' })}
</div>
${form.checks({ name: 'permissions', label: 'Permissions', choices: workloadPermissions.map((value) => ({ value, text: value, isChecked: value === 'repo:read' })) })}
${form.token()}
<button class="primary">Add</button>`)
}
