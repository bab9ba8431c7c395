import { action, type PageContext, page, type View } from '../page.ts'
import { createForm, fieldText, type PageForm } from '../page-forms.ts'
import { type Html, html } from '../render/html.ts'
import { visibilityChoices } from '../visibility-parts.ts'

export const newRepositoryPages = [
  page('/-/new', ['listRepositories', 'listNamespaces'], {
    weight: 'light',
    audience: 'members',
    styles: 'forms',
    async show(context) {
      await context.read('listRepositories', { query: { limit: 1 } })
      const namespaces = (await context.tryRead('listNamespaces')) ?? []
      return newView(
        context,
        namespaces.flatMap(({ name, role }) =>
          role === 'maintain' || role === 'admin' ? [name] : [],
        ),
      )
    },
  }),
  action('/-/new', 'createRepository', {
    formPage: '/-/new',
    input: ({ fields }) => ({
      body: {
        name: nameIn(fields) ?? '',
        defaultBranch: fieldText(fields, 'defaultBranch'),
        visibility: fieldText(fields, 'visibility'),
      },
    }),
    redirectTo: ({ to, fields }) => to.repository(nameIn(fields) ?? ''),
  }),
  action('/-/new/import', 'importRepository', {
    formPage: '/-/new',
    // An import may take hours: the page of the repository shows how far it is.
    input: ({ fields }) => ({
      body: { source: fieldText(fields, 'source') ?? '', name: nameIn(fields) },
      prefer: 'respond-async',
    }),
    // Without a name in the form it is that of the source.
    redirectTo: ({ to }, value) => to.repository(String(Object(value).name)),
  }),
  action('/r/:name/cancel-import', 'deleteRepository', {
    formPage: '/r/:name',
    isSensitive: true,
    input: () => ({}),
    redirectTo: ({ to }) => to.home(),
    done: { text: 'The import is removed.' },
  }),
]

const nameHelp = 'Letters, digits, hyphens, underscores and dots.'

/** The name of the form, with the namespace that was chosen. */
function nameIn(fields: URLSearchParams): string | undefined {
  const [namespace, name] = [fieldText(fields, 'namespace'), fieldText(fields, 'name')]
  return namespace === undefined || name === undefined ? name : `${namespace}/${name}`
}

/** The choice of a namespace; nothing where there is none. */
function namespaceChoice(form: PageForm, namespaces: string[], chosen: string): Html | undefined {
  if (namespaces.length === 0) return undefined
  const options = namespaces.map((value) => ({ value, text: value }))
  return form.select({
    ...{ name: 'namespace', label: 'Namespace', value: chosen },
    options: [{ value: '', text: 'None' }, ...options],
  })
}

/** A URL without the password in it. */
function withoutPassword(source: string): string {
  return source.replace(/^([a-z+]+:\/\/[^/@:]*):[^/]*@/i, '$1@')
}

function newView(context: PageContext, namespaces: string[]): View {
  const { to, query } = context
  const create = createForm(context, to.own('new'))
  const copy = createForm(context, to.own('new/import'))
  const source = query.get('source') ?? undefined
  const chosen = query.get('namespace') ?? ''
  return {
    title: 'New repository · svc',
    crumbs: [{ text: 'New repository' }],
    body: html`<h1>New repository</h1>
<div class="halves">
<section class="card pad">
<h2>Create an empty one</h2>
${create.render(html`${namespaceChoice(create, namespaces, chosen)}${create.text({ name: 'name', label: 'Name', help: nameHelp, isRequired: true, maxLength: 100, hasFocus: source === undefined })}
${create.text({ name: 'defaultBranch', label: 'Default branch', placeholder: 'main', maxLength: 300, help: 'If the first push has no such branch, the pushed one becomes the default.' })}
${create.select({ name: 'visibility', label: 'Visibility', value: 'private', options: visibilityChoices })}
<button class="primary">Create</button>`)}
</section>
<section class="card pad">
<h2>Import an existing one</h2>
${copy.render(html`${copy.text({ name: 'source', label: 'Address', isRequired: true, maxLength: 2048, ...(source !== undefined && { value: source }), placeholder: 'https://github.com/owner/name.git', help: 'An https, ssh or git address. A user and password in it are used once and not stored.', withoutSecret: withoutPassword, hasFocus: source !== undefined })}
${namespaceChoice(copy, namespaces, chosen)}${copy.text({ name: 'name', label: 'Name', maxLength: 100, value: query.get('name'), help: 'If empty, the name in the address.' })}
<button class="primary">Import</button>`)}
</section>
</div>`,
  }
}
