import { holds, isAdmin } from '#access/may.ts'
import { doneNotice } from '../done.ts'
import { icon } from '../icons.ts'
import { action, type PageContext, page, type View } from '../page.ts'
import { askButton, createForm, fieldLines, fieldText, otherProblem } from '../page-forms.ts'
import { pager, wholeCount } from '../pager.ts'
import type { OperationValues } from '../read-operations.ts'
import { html } from '../render/html.ts'
import { expiryChoices, expiryOf, lifeOf } from './expiry.ts'
import { limitedTo } from './token-pages.ts'

type Key = OperationValues['listSshKeys'][number]

export const keyPages = [
  page('/-/keys', ['listSshKeys'], {
    weight: 'light',
    audience: 'members',
    styles: 'forms',
    async show(context) {
      const { query } = context
      const username = fieldText(query, 'username')
      const { value, next } = await context.readPage('listSshKeys', {
        query: { limit: 100, username, cursor: fieldText(query, 'cursor') },
      })
      return keysView(context, value, next)
    },
  }),
  action('/-/keys', 'createSshKey', {
    formPage: '/-/keys',
    isSensitive: true,
    input({ fields }) {
      const publicKey = fieldText(fields, 'publicKey') ?? ''
      const permissions = fields.getAll('permissions')
      return {
        body: {
          publicKey,
          name: fieldText(fields, 'name') ?? nameFor(publicKey),
          username: fieldText(fields, 'username'),
          permissions: permissions.length === 0 ? undefined : permissions,
          repositories: fieldLines(fields, 'repositories'),
          ...expiryOf(fields),
        },
      }
    },
    redirectTo: ({ to }) => to.own('keys'),
    done: { text: 'The key is added.' },
  }),
  action('/-/keys/:id/delete', 'deleteSshKey', {
    formPage: '/-/keys',
    isSensitive: true,
    input: () => ({}),
    redirectTo: ({ to }) => to.own('keys'),
    done: { text: 'The key is deleted.' },
  }),
]

/** The comment of a line of a .pub file, or its type. */
function nameFor(publicKey: string): string {
  const [type = '', , ...comment] = publicKey.split(/\s+/)
  return (comment.join(' ') || type).slice(0, 100)
}

function keysView(context: PageContext, keys: Key[], next: string | undefined): View {
  const { to, caller, query } = context
  const isForAdmin = isAdmin(caller)
  const username = fieldText(query, 'username') ?? caller.username
  const form = createForm(context, to.own('keys'))
  const held = (['repo:read', 'repo:write'] as const).filter((one) => holds(caller, one))
  return {
    title: 'SSH keys · svc',
    crumbs: [{ text: 'SSH keys' }],
    json: '/keys',
    body: html`<div class="page-head"><h1>SSH keys${wholeCount(context, keys, next)}</h1>
${
  isForAdmin &&
  html`<form class="inline" action="${to.own('keys')}"><label for="of">User</label><input id="of" name="username" value="${username}" maxlength="64" size="16"><button>Show</button></form>`
}
<p class="soft">Git uses a key to fetch and push over SSH as <b>${username}</b>, within the permissions of the key.</p></div>
${doneNotice(context)}${otherProblem(context, [form])}
${
  keys.length === 0
    ? html`<p class="card pad soft">There are no keys yet.</p>`
    : html`<ul class="card rows">${keys.map((key) => keyRow(context, key))}</ul>`
}
${pager(context, next)}
<section class="card pad">
<h2>Add a key</h2>
${form.render(html`${form.area({ name: 'publicKey', label: 'Public key', isRequired: true, placeholder: 'ssh-ed25519 AAAA… ada@laptop', help: 'The line of a .pub file, such as ~/.ssh/id_ed25519.pub.' })}
<div class="columns">${form.text({ name: 'name', label: 'Name', maxLength: 100, help: 'If empty, the comment of the key, or its type.' })}
${form.select({ name: 'expires', label: 'Expires', options: expiryChoices('With the token of this session', { never: isForAdmin }) })}
${isForAdmin && form.text({ name: 'username', label: 'User', maxLength: 64, value: username })}</div>
${form.checks({ name: 'permissions', label: 'Permissions', choices: held.map((value) => ({ value, text: value, isChecked: true })) })}
${form.area({ name: 'repositories', label: 'Only these repositories', placeholder: 'all', help: 'Names, one per line. Such a deploy key can access nothing else.' })}
${form.token()}
<button class="primary">Add key</button>`)}
</section>`,
  }
}

function keyRow(context: PageContext, key: Key) {
  const { to, time } = context
  const { id, name, fingerprint, keyType, permissions, repositories } = key
  return html`<li class="row">
${icon('key', 'soft')}
<div class="grow"><h2 class="row-title">${name}</h2>
<p class="soft"><code>${fingerprint}</code> ${keyType}</p>
<p class="soft">${lifeOf(key, time)}</p>
${limitedTo(to, repositories)}</div>
<span class="badges">${permissions.map((one) => html`<span class="badge">${one}</span>`)}</span>
${askButton(context, { action: to.own(`keys/${id}/delete`), verb: 'Delete', object: name, consequence: 'Git cannot fetch or push with it any more.', isSensitive: true })}
</li>`
}
