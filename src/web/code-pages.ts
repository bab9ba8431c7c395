import { Problem } from '../base/problem.ts'
import { html } from '../render/html.ts'
import { icon } from './icons.ts'
import { importProgress } from './import-progress.ts'
import { parseTarget } from './links.ts'
import { type PageContext, page } from './page.ts'
import { age } from './time.ts'

export const codePages = [
  page('/r/:name', ['getRepository', 'getTree'], {
    weight: 'git',
    audience: 'code',
    async show(context) {
      const repository = await context.read('getRepository')
      const progress = importProgress(repository, context)
      if (progress) {
        const { name } = repository
        return { title: `${name} · svc`, repository: name, tab: 'code', body: progress }
      }
      return folderView(context, repository.defaultBranch, { path: '' })
    },
  }),
  page('/r/:name/src/:target*', ['getTree'], {
    weight: 'git',
    audience: 'code',
    async show(context) {
      const target = parseTarget(context.params.target ?? '')
      if (!target) throw new Problem('route_not_found', 'There is no such page.')
      return folderView(context, target.rev, target.path)
    },
  }),
]

async function folderView(
  { read, params, to, now }: PageContext,
  rev: string,
  path: { path: string; pathBase64?: string },
) {
  const name = params.name ?? ''
  const wanted =
    path.pathBase64 === undefined ? { path: path.path } : { pathBase64: path.pathBase64 }
  const tree = await read('getTree', { query: { rev, ...(path.path !== '' && wanted) } })
  return {
    title: `${name} · svc`,
    repository: name,
    tab: 'code' as const,
    body: html`<h1 class="hidden">${name}</h1>
<table class="card files"><caption class="hidden">Files</caption><tbody>
${tree.entries.map(
  (entry) => html`<tr>
<td>${icon(entry.type === 'folder' ? 'folder' : 'file', entry.type)}<a href="${to.src(name, rev, entry)}">${entry.name}</a></td>
<td class="soft cut">${entry.lastCommit && html`<a href="${to.commit(name, entry.lastCommit.id)}">${entry.lastCommit.summary}</a>`}</td>
<td class="soft age">${entry.lastCommit && age(entry.lastCommit.at, now)}</td>
</tr>`,
)}
</tbody></table>`,
  }
}
