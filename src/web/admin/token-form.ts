import { holds } from '#access/may.ts'
import type { Permission } from '#access/permissions.ts'
import type { PageContext } from '../page.ts'
import { createForm, fieldLines, fieldText } from '../page-forms.ts'
import { type Html, html } from '../render/html.ts'
import { expiryChoices, expiryOf } from './expiry.ts'

/** All permissions in groups, in words. */
const groups: { name: string; permissions: [Permission, string][] }[] = [
  {
    name: 'Repositories',
    permissions: [
      ['repo:read', 'see, clone and fetch'],
      ['repo:write', 'create, push, change settings'],
      ['repo:delete', 'delete and restore'],
    ],
  },
  {
    name: 'Workflows',
    permissions: [
      ['workflow:read', 'see runs and logs'],
      ['workflow:trigger', 'start, rerun and cancel runs'],
      ['status:write', 'report statuses of commits'],
      ['change:write', 'propose changes and review them'],
    ],
  },
  {
    name: 'Secrets',
    permissions: [
      ['secrets:read', 'list names'],
      ['secrets:write', 'set and delete'],
    ],
  },
  {
    name: 'Webhooks',
    permissions: [
      ['webhook:read', 'see deliveries'],
      ['webhook:write', 'create, change, retry'],
    ],
  },
  {
    name: 'Collaborators',
    permissions: [
      ['collaborator:read', 'list'],
      ['collaborator:write', 'add and remove'],
    ],
  },
  {
    name: 'Service',
    permissions: [
      ['runner', 'execute runs'],
      ['metrics:read', 'read metrics'],
      ['admin', 'everything, in all repositories'],
    ],
  },
]

const preset = new Set<Permission>(['repo:read', 'repo:write'])

/** The body of a new token, from the fields of its form. */
export function newTokenOf(fields: URLSearchParams) {
  const permissions = fields.getAll('permissions')
  return {
    name: fieldText(fields, 'name') ?? '',
    permissions: permissions.length === 0 ? undefined : permissions,
    repositories: fieldLines(fields, 'repositories'),
    refs: fieldLines(fields, 'refs'),
    ...expiryOf(fields),
  }
}

/** The form of a new token; a delegated one has a part of the rights of the session's token. */
export function tokenForm(context: PageContext, kind: 'new' | 'delegate'): Html {
  const { to, caller } = context
  const isDelegated = kind === 'delegate'
  const form = createForm(context, to.own(`tokens/${kind}`))
  const shown = groups.map(({ name, permissions }) => ({
    name,
    choices: permissions
      .filter(([permission]) => holds(caller, permission))
      .map(([value, help]) => ({ value, text: value, help, isChecked: preset.has(value) })),
  }))
  const expires = isDelegated
    ? expiryChoices('With the token of this session', { hour: true })
    : expiryChoices('Default: 365 days', { hour: true, never: true })
  return form.render(html`<div class="columns">
${form.text({ name: 'name', label: 'Name', isRequired: true, maxLength: 100, hasFocus: true, help: 'Where it is used, such as “laptop” or “release agent”.' })}
${!isDelegated && form.text({ name: 'username', label: 'User', maxLength: 64, value: caller.username, help: 'The user that it acts as.' })}
${form.select({ name: 'expires', label: 'Expires', options: expires })}
</div>
<fieldset class="field"><legend>Permissions</legend>
<div class="groups">${shown
    .filter(({ choices }) => choices.length > 0)
    .map(({ name, choices }, index) =>
      form.checks({
        name: 'permissions',
        label: name,
        choices,
        ...(index > 0 && { pointer: '' }),
      }),
    )}</div></fieldset>
<div class="columns">
${form.area({ name: 'repositories', label: 'Only these repositories', placeholder: 'all', help: 'Names, one per line.' })}
${form.area({ name: 'refs', label: 'Push only these refs', placeholder: 'all', help: html`Patterns, one per line, such as <code>refs/heads/agents/*</code>.` })}
</div>
${form.token()}
<div class="actions"><button class="primary">${isDelegated ? 'Delegate' : 'Create token'}</button><a class="button quiet" href="${to.own('tokens')}">Back</a></div>`)
}
