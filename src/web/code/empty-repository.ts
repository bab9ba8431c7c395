import { Problem } from '#base/problem.ts'
import { apiPathOf } from '#base/repository-name.ts'
import { icon } from '../icons.ts'
import { missingLfsNotice } from '../import-progress.ts'
import type { PageTarget } from '../links.ts'
import type { SharedContext, View } from '../page.ts'
import type { OperationValues } from '../read-operations.ts'
import { html } from '../render/html.ts'
import { cloneFields, pageUrl } from './repository-side.ts'

const shownTags = 20

type Shown = PageTarget & Required<Pick<View, 'tab'>>

/** Shows a page of a revision. That of a default branch which is still to be pushed says so. */
export async function orNoCommits<T>(
  context: SharedContext,
  { rev, path, tab }: Shown,
  show: () => Promise<T>,
): Promise<T | View> {
  try {
    return await show()
  } catch (error) {
    const isAbsent = error instanceof Problem && error.code === 'revision_not_found'
    if (!isAbsent || path.path !== '') throw error
    const { name, defaultBranch } = await context.read('getRepository')
    if (rev !== defaultBranch && rev !== `refs/heads/${defaultBranch}`) throw error
    const page = context.to.repository(name)
    return {
      title: `No commits yet · ${name}`,
      repository: name,
      tab,
      body: html`<section class="empty">${icon('commit', 'large')}<h1>No commits yet</h1><p class="soft">The first push to <code>${rev}</code> brings them: <a href="${page}">how to push</a>.</p></section>`,
    }
  }
}

/** The page of a repository without branches: its newest tags, and how to push the first commits. */
export async function emptyRepositoryView(
  context: SharedContext,
  repository: OperationValues['getRepository'],
): Promise<View> {
  const { to, tryRead } = context
  const { name, defaultBranch, description, empty } = repository
  const tags = empty
    ? []
    : ((await tryRead('listTags', { query: { limit: shownTags, order: 'version' } })) ?? [])
  const url = pageUrl(context, repository)
  const mayEdit = empty && context.isLoggedIn && (await context.may('createCommit'))
  return {
    title: `${name} · svc`,
    repository: name,
    tab: 'code',
    json: apiPathOf(name),
    body: html`<div class="with-side"><div>
<h1>${name} ${tags.length > 0 ? 'has no branch' : 'is empty'}</h1>
<p class="soft about">${description}</p>
${missingLfsNotice(repository)}
${
  tags.length > 0 &&
  html`<section class="card pad prose"><h2>Tags</h2>
<ul>${tags.map((tag) => html`<li><a href="${to.src(name, `refs/tags/${tag.name}`)}">${tag.name}</a></li>`)}</ul>
${tags.length === shownTags && html`<p><a href="${to.of(name, 'tags')}">All tags</a></p>`}</section>`
}
<div class="card pad prose">
<h2>Push an existing repository</h2>
<pre tabindex="0"><code>git remote add origin ${url}
git push -u origin ${defaultBranch}</code></pre>
<h2>Or begin a new one</h2>
${mayEdit && html`<p><a href="${to.newFile(name, defaultBranch)}">Write its first file here</a>, or with Git:</p>`}
<pre tabindex="0"><code>git clone ${url}
cd ${name}
echo '# ${name}' &gt; README.md
git add README.md
git commit -m 'Add a README'
git push -u origin HEAD:${defaultBranch}</code></pre>
<p class="soft">When Git asks for a password, give an API token; the username does not matter.</p>
</div></div>
<aside class="side" aria-label="About"><section><h2>Clone</h2>${cloneFields(context, repository)}</section></aside></div>`,
  }
}
