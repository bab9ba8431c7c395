import { hash } from 'node:crypto'
import { documentPlace } from '../code/document-view.ts'
import type { PageContext } from '../page.ts'
import { type Html, html } from '../render/html.ts'
import type { ShownRun, ShownStep } from './run-states.ts'

/** Those of more steps are shown as text: each may take as long as a document. */
const maxRendered = 20

/** The summaries that steps wrote, in Markdown. */
export async function runSummaries(
  run: ShownRun,
  steps: readonly ShownStep[],
  context: Pick<PageContext, 'to' | 'params' | 'render'>,
): Promise<Html[]> {
  const place = documentPlace(context, context.params.name ?? '', run.commit, '')
  const sections: Html[] = []
  let left = maxRendered
  for (const { summary, name, job } of steps) {
    if (summary === null) continue
    const key = ['summary', hash('sha256', summary), place.src].join('\n')
    const rendered =
      left > 0 ? await context.render(key, { kind: 'markdown', text: summary, place }) : undefined
    // After one that took too long, the others are not waited for.
    left = rendered === undefined ? 0 : left - 1
    const of = run.jobs.length > 1 ? `${job} › ${name}` : name
    sections.push(
      html`<section class="card step-summary"><header><h2>Summary of ${of}</h2></header>${
        rendered === undefined
          ? html`<pre tabindex="0">${summary}</pre>`
          : html`<div class="prose">${rendered}</div>`
      }</section>`,
    )
  }
  return sections
}
