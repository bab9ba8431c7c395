import { type Html, html } from '../../render/html.ts'
import { shortId } from '../display-text.ts'
import type { PageContext } from '../page.ts'
import type { OperationValues } from '../read-operations.ts'
import { type RunInList, runMark } from '../runs/run-states.ts'
import { age } from '../time.ts'

type CommitOfRow = OperationValues['listCommits'][number]

/** The newest commit of a folder or file, with the state of its run. */
export function commitRow(
  { to, now }: PageContext,
  name: string,
  commit: CommitOfRow,
  run?: RunInList,
): Html {
  const { id, author, message } = commit
  const [summary = ''] = message.trimStart().split('\n', 1)
  return html`<header class="last"><b>${author.name}</b><a class="cut grow" href="${to.commit(name, id)}">${summary}</a>
${run?.commit === id && runMark(to, name, run)}<code class="soft wide-only">${shortId(id)}</code><span class="soft">${age(author.at, now)}</span></header>`
}
