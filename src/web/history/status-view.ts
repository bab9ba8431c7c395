import { isObjectId } from '#base/object-id.ts'
import { counted } from '../display-text.ts'
import { type IconName, icon } from '../icons.ts'
import type { Links } from '../links.ts'
import type { SharedContext } from '../page.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'

type Status = OperationValues['listStatuses'][number]

const shapes: Record<Status['state'], { shape: IconName; tone: string; word: string }> = {
  pending: { shape: 'waiting', tone: 'busy', word: 'Pending' },
  success: { shape: 'check', tone: 'good', word: 'Succeeded' },
  failure: { shape: 'cross', tone: 'bad', word: 'Failed' },
  error: { shape: 'cross', tone: 'bad', word: 'Could not be checked' },
}
const maxListed = 50

/** Reads what checks from outside say of a commit; nothing for those who may not see runs. */
export async function readStatuses(
  { tryRead, isLoggedIn }: SharedContext,
  commit: string,
): Promise<Status[]> {
  if (!isLoggedIn || !isObjectId(commit)) return []
  const all = (await tryRead('listStatuses', { params: { commit } })) ?? []
  return all.filter(({ run }) => run === null)
}

type Combined = OperationValues['listCombinedStatuses'][number]

/** Reads what checks from outside say of several commits, by their ids; nothing for those who may not see runs. */
export async function combinedStatuses(
  { tryRead, isLoggedIn }: SharedContext,
  commits: readonly string[],
): Promise<ReadonlyMap<string, Combined>> {
  if (!isLoggedIn || commits.length === 0) return new Map()
  const query = { commits: [...new Set(commits)].join(',') }
  const all = (await tryRead('listCombinedStatuses', { query })) ?? []
  return new Map(all.map((one) => [one.commit, one]))
}

/** The combined state of a commit, with a link to it; as a mark, its words are only for those who do not see it. */
export function combinedState(
  to: Links,
  name: string,
  combined: Combined | undefined,
  isMark: boolean,
): Html | false {
  if (combined === undefined) return false
  const { commit, state, contexts, succeeded } = combined
  const { shape, tone } = shapes[state]
  const words = `${succeeded} of ${counted(contexts, 'status', 'statuses')} succeeded`
  if (!isMark) return html`<a href="${to.commit(name, commit)}">${icon(shape, tone)} ${words}</a>`
  return html`<a class="run-mark ${tone}" href="${to.commit(name, commit)}" title="${words}">${icon(shape)}<span class="hidden">${words}</span></a>`
}

export function statusList({ time }: SharedContext, statuses: readonly Status[]): Html | false {
  if (statuses.length === 0) return false
  const left = statuses.length - maxListed
  return html`<ul class="card rows" aria-label="Statuses">${statuses
    .slice(0, maxListed)
    .map(({ context, state, description, targetUrl, username, createdAt }) => {
      const { shape, tone, word } = shapes[state]
      return html`<li class="row"><span class="mark ${tone}" title="${word}">${icon(shape)}<span class="hidden">${word}</span></span>
<div class="grow"><b>${context}</b> <span class="soft">${description !== '' && html`${description}, `}by ${username} ${time.age(createdAt)}</span></div>
${targetUrl !== null && html`<a class="button small" href="${targetUrl}" rel="noopener nofollow">Details</a>`}</li>`
    })}${left > 0 && html`<li class="row soft">${left} more are not shown.</li>`}</ul>`
}
