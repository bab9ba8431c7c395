import { roles } from '#access/roles.ts'
import { namespaceIn } from '#base/repository-name.ts'
import { icon } from '../icons.ts'
import { askButton } from '../page-forms.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Content, type Html, html } from '../render/html.ts'
import { roleWords, unknownBadge } from '../role-words.ts'
import { type SectionParts, section } from './cache-section.ts'

/** Who has access to a repository. */
export function peopleSection(
  parts: SectionParts,
  {
    owner,
    people,
    mayChange,
  }: { owner: string; people: OperationValues['listCollaborators']; mayChange: boolean },
): Html {
  const { address, context } = parts
  const namespace = namespaceIn(people.repoName)
  const form = parts.form('collaborators')
  return section(
    parts,
    {
      id: 'collaborators',
      title: 'Collaborators',
      about: 'Users who see this repository, each with a role.',
    },
    html`<div class="card"><ul>
<li class="row">${icon('person', 'soft')}<b class="grow">${owner}</b><span class="badge accent">owner</span></li>
${people.collaborators.map(
  (
    username,
  ) => html`<li class="row">${icon('person', 'soft')}<span class="grow"><b>${username}</b>${people.unknownUsernames.includes(username) && html` ${unknownBadge(username)}`}</span><span class="badge">${people.roles[username]}</span>
${mayChange && askButton(context, { action: address('collaborators/remove'), verb: 'Remove', object: username, consequence: 'They lose access at once, and do not see this repository any more.', hidden: { username } })}</li>`,
)}${people.inherited?.map(
  ({ member, role }) =>
    html`<li class="row">${icon('person', 'soft')}<span class="grow"><b>${member}</b> <span class="soft">by the namespace <a href="${context.to.namespace(namespace ?? '')}">${namespace}</a></span></span><span class="badge">${role}</span></li>`,
)}</ul>
${namespace !== undefined && people.inherited === undefined && html`<p class="pad soft">Members of the namespace ${namespace} have access, too.</p>`}
${
  mayChange &&
  html`<details class="add"${form.isSent && html` open`}><summary>${icon('plus')}Add a collaborator or change a role</summary><div class="pad">${form.render(html`${form.text({ name: 'username', label: 'User', isRequired: true, maxLength: 64 })}
${form.select({ name: 'role', label: 'Role', value: 'write', options: roles.map((value) => ({ value, text: roleWords[value] ?? value })) })}
<button class="primary">Save</button>`)}</div></details>`
}</div>`,
  )
}

/** The names of secrets; no page has a value. */
export function secretSection(
  parts: SectionParts,
  {
    secrets,
    inherited,
    mayChange,
  }: {
    secrets: Pick<OperationValues['listSecrets'][number], 'name' | 'updatedAt'>[]
    /** A line about those of the namespace. */
    inherited?: Content
    mayChange: boolean
  },
): Html {
  const { address, context } = parts
  const form = parts.form('secrets')
  return section(
    parts,
    {
      id: 'secrets',
      title: 'Secrets',
      about: 'Values for the steps of workflows. They can be replaced, and never read back.',
    },
    html`<div class="card">
${inherited}
${secrets.length === 0 && html`<p class="pad soft">There are no secrets.</p>`}
${
  secrets.length > 0 &&
  html`<ul>${secrets.map(
    ({
      name: secret,
      updatedAt,
    }) => html`<li class="row">${icon('lock', 'soft')}<b class="grow mono">${secret}</b><span class="soft">set ${context.time.age(updatedAt)}</span>
${mayChange && askButton(context, { action: address('secrets/remove'), verb: 'Delete', object: secret, consequence: 'Its value is lost, and workflows go on without it.', hidden: { secret }, isSensitive: true })}</li>`,
  )}</ul>`
}
${
  mayChange &&
  html`<details class="add"${form.isSent && html` open`}><summary>${icon('plus')}Set a secret</summary><div class="pad">${form.render(html`${form.text({ name: 'secret', label: 'Name', isRequired: true, maxLength: 100, isMono: true, pointer: 'secretName', placeholder: 'DEPLOY_KEY', help: 'An existing secret of this name is replaced.' })}
${form.area({ name: 'value', label: 'Value', isSecret: true, isRequired: true })}
${form.token()}
<button class="primary">Save</button>`)}</div></details>`
}</div>`,
  )
}
