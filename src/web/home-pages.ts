import { html } from '../render/html.ts'
import { icon } from './icons.ts'
import { action, type PageContext, page, type View } from './page.ts'
import { problemNotice } from './problem-page.ts'
import { age } from './time.ts'

export const homePages = [
  page('/', ['listRepositories'], {
    weight: 'light',
    audience: 'code',
    async show({ read, query, to, now, session }) {
      const all = await read('listRepositories')
      const wanted = query.get('q')?.toLowerCase() ?? ''
      const shown = all
        .filter(({ name, description }) => `${name} ${description}`.toLowerCase().includes(wanted))
        .sort((one, other) => (other.pushedAt ?? other.createdAt) - (one.pushedAt ?? one.createdAt))
        .slice(0, 50)
      return {
        title: 'Repositories · svc',
        json: '/repos',
        body: html`<div class="page-head"><h1>Repositories <span class="count">${shown.length}</span></h1>
${session && html`<a class="button primary" href="${to.own('new')}">${icon('plus')}New</a>`}</div>
<ul class="card rows">
${shown.map(
  ({ name, description, pushedAt, protectedBranches }) => html`<li class="row">
<div class="grow"><h2 class="row-title"><a href="${to.repository(name)}">${name}</a>${protectedBranches.length > 0 && icon('lock', 'soft')}</h2>
<p class="soft cut">${description}</p></div>
<span class="soft">${pushedAt === null ? 'never pushed' : age(pushedAt, now)}</span>
</li>`,
)}
</ul>`,
      }
    },
  }),
  page('/-/new', [], {
    weight: 'light',
    audience: 'members',
    show: async (context) => newView(context),
  }),
  action('/-/new', 'createRepository', {
    of: '/-/new',
    input: ({ fields }) => ({ body: { name: fields.get('name') ?? '' } }),
    next: ({ to, fields }) => to.repository(fields.get('name') ?? ''),
  }),
]

function newView(context: PageContext): View {
  const { to, fields } = context
  return {
    title: 'New repository · svc',
    crumbs: [{ text: 'New repository' }],
    body: html`<section class="narrow">
<h1>New repository</h1>
${problemNotice(context)}
<form method="post" action="${to.own('new')}" class="stack">
<label for="name">Name</label>
<input id="name" name="name" value="${fields.get('name')}" required maxlength="100" autocomplete="off" spellcheck="false" autofocus>
<p class="help">Letters, digits, hyphens, underscores and dots.</p>
<button class="primary">Create</button>
</form>
</section>`,
  }
}
