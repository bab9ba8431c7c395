import { type Html, html } from '../render/html.ts'
import { describeState, type RunInList } from './run-states.ts'

const step = 7
const height = 18

/** The last runs as ticks, the oldest first; those that ended otherwise than well are shorter and have a colour of their own. */
export function runTicks(newestFirst: readonly RunInList[]): Html {
  const runs = newestFirst.toReversed()
  const words = runs.map((run) => `${run.number} ${describeState(run).word.toLowerCase()}`)
  return html`<svg class="run-ticks" width="${runs.length * step}" height="${height}" role="img" aria-label="Last runs, oldest first: ${words.join(', ')}">
${runs.map((run, index) => {
  const { tone, word } = describeState(run)
  const isShort = tone !== 'good' && tone !== 'bad'
  return html`<rect class="bar-${tone || 'none'}" x="${index * step}" y="${isShort ? 4 : 0}" width="4" height="${isShort ? height - 4 : height}" rx="1.5"><title>Run ${run.number}: ${word}</title></rect>`
})}</svg>`
}
