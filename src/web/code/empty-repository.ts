import { html } from '../../render/html.ts'
import type { SharedContext, View } from '../page.ts'
import type { OperationValues } from '../read-operations.ts'
import { cloneFields, pageUrl } from './repository-side.ts'

/** The page of a repository without commits: how to push the first ones. */
export function emptyRepositoryView(
  context: SharedContext,
  repository: OperationValues['getRepository'],
): View {
  const { name, defaultBranch, description } = repository
  const url = pageUrl(context, repository)
  return {
    title: `${name} · svc`,
    repository: name,
    tab: 'code',
    json: `/repos/${encodeURIComponent(name)}`,
    body: html`<div class="with-side"><div>
<h1>${name} is empty</h1>
<p class="soft about">${description}</p>
<div class="card pad prose">
<h2>Push an existing repository</h2>
<pre tabindex="0"><code>git remote add origin ${url}
git push -u origin ${defaultBranch}</code></pre>
<h2>Or begin a new one</h2>
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
