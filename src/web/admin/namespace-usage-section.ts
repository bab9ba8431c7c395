import { toSize } from '#base/format.ts'
import { counted, grouped } from '../display-text.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'

/** What a namespace takes and did, in sentences. */
export function usageSection(usage: OperationValues['getNamespaceUsage']): Html {
  const { repositories, maxRepositories, bytes, maxBytes, days } = usage
  const sum = (field: Exclude<keyof (typeof days)[number], 'day'>) =>
    days.reduce((total, day) => total + day[field], 0)
  const mostRepositories = maxRepositories === null ? '' : ` of at most ${grouped(maxRepositories)}`
  const mostBytes = maxBytes === null ? '' : ` of at most ${toSize(maxBytes)}`
  return html`<section id="usage"><h2>Usage</h2>
<div class="card pad"><p>${counted(repositories, 'repository', 'repositories')}${mostRepositories}, ${toSize(bytes)}${mostBytes}.</p>
<p class="soft">In the last 30 days: ${counted(sum('pushes'), 'push', 'pushes')}, ${counted(sum('fetches'), 'fetch', 'fetches')}, ${toSize(sum('receivedBytes'))} received, ${toSize(sum('sentBytes'))} sent, ${counted(sum('runMinutes'), 'minute')} of runs.</p></div></section>`
}
