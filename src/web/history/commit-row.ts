import { shownName } from '../display-text.ts'
import type { SharedContext } from '../page.ts'
import { type Html, html } from '../render/html.ts'
import { runMark } from '../run-states.ts'
import { commitLink, type RunsByCommit, type ShownCommit, splitMessage } from './commit-parts.ts'
import { type RefsById, refBadges } from './refs-by-id.ts'

type RowContext = Pick<SharedContext, 'to' | 'time'> & {
  name: string
  refs: RefsById
  runs: RunsByCommit
  here?: (changes: Record<string, string>) => string
}

/** A commit in a list. */
export function commitRow(
  { id, message, author, committer, parents }: ShownCommit,
  { name, to, time, refs, runs, here }: RowContext,
): Html {
  const { subject, body } = splitMessage(message)
  const isOther = author.name !== committer.name
  return html`<li class="row commit-row"><div class="grow">
<h3><a href="${to.commit(name, id)}">${subject}</a></h3>
<div class="commit-meta"><p class="soft">${
    here
      ? html`<a href="${here({ author: author.email || author.name })}">${shownName(author)}</a>`
      : shownName(author)
  }${isOther && `, committed by ${shownName(committer)}`} · ${time.age(committer.at)}${
    parents.length > 1 && ' · merge'
  }${refBadges(refs.get(id))}</p>
${body !== '' && html`<details><summary>Message</summary><pre>${body}</pre></details>`}</div>
</div>
${runMark(to, name, runs.get(id))}
${commitLink(to, name, id)}
<a class="button quiet small" href="${to.src(name, id)}">Files</a>
</li>`
}
