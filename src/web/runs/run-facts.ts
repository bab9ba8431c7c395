import { shortId } from '../display-text.ts'
import { icon } from '../icons.ts'
import type { Links } from '../links.ts'
import { type Html, html } from '../render/html.ts'
import type { RunInList, ShownRun } from '../run-states.ts'
import { toDuration } from '../time.ts'

const triggers: Record<string, string> = {
  push: 'pushed',
  pull_request: 'proposed',
  merge_group: 'queued',
  workflow_dispatch: 'started it',
  schedule: 'scheduled it',
}

/** Who caused a run, and how. */
export function causeOf({ actor, event }: Pick<ShownRun, 'actor' | 'event'>): Html {
  const shape = event === 'push' ? 'push' : event === 'schedule' ? 'history' : 'person'
  return html`<span class="fact">${icon(shape)}<span><b>${actor}</b> ${triggers[event] ?? event}</span></span>`
}

/** The branch, the tag or the version of a change, and the commit of a run. */
export function sourceOf(
  to: Links,
  name: string,
  { branch, ref, commit }: Pick<ShownRun, 'branch' | 'ref' | 'commit'>,
): Html {
  const isTag = ref.startsWith('refs/tags/')
  const rev = isTag ? ref : branch
  const [, number, version] = /^refs\/changes\/(\d+)\/(\d+)$/.exec(ref) ?? []
  const source =
    number === undefined
      ? html`<a href="${to.src(name, rev)}">${branch}</a>`
      : html`<a href="${to.of(name, `changes/${number}`)}">Change ${number}, version ${version}</a>`
  return html`<span class="fact">${icon(isTag ? 'tag' : 'branch')}${source}</span>
<span class="fact">${icon('commit')}<a class="mono" href="${to.commit(name, commit)}">${shortId(commit)}</a></span>`
}

type Timed = Pick<RunInList, 'status' | 'startedAt' | 'completedAt'>

/** How long something took; it counts on in a browser while it runs. */
export function durationOf({ status, startedAt, completedAt }: Timed, now: number): Html {
  if (startedAt === null) return html``
  if (status === 'running')
    return html`<span class="nowrap" data-since="${startedAt}">${toDuration(now - startedAt)}</span>`
  return completedAt === null
    ? html``
    : html`<span class="nowrap">${toDuration(completedAt - startedAt)}</span>`
}
