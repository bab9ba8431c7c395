import { orNoMessage, shortId, shownName } from '../display-text.ts'
import type { SharedContext } from '../page.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { type RunInList, runMark } from '../runs/run-states.ts'

type CommitOfRow = OperationValues['listCommits'][number]

/** The newest commit of a folder or file, with the state of its run. */
export function lastCommitRow(
  { to, time }: SharedContext,
  name: string,
  commit: CommitOfRow,
  run?: RunInList,
): Html {
  const { id, author, message } = commit
  const [summary = ''] = message.trimStart().split('\n', 1)
  return html`<header class="last"><b>${shownName(author)}</b><a class="cut grow" href="${to.commit(name, id)}">${orNoMessage(summary)}</a>
${run?.commit === id && runMark(to, name, run)}<code class="soft wide-only">${shortId(id)}</code><span class="soft">${time.age(author.at)}</span></header>`
}
