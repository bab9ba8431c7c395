import { html } from '../render/html.ts'
import { icon } from './icons.ts'
import { page } from './page.ts'
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
]
