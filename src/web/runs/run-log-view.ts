import { counted, grouped } from '../display-text.ts'
import { type Html, html } from '../render/html.ts'
import { outputLines, renderLogLines } from '../render/log-lines.ts'
import type { ShownStep } from '../run-states.ts'

const maxLinesOfOpen = 2000
const maxLinesOfFolded = 200
const maxLinesOfPage = 3000
/** Also on a phone, which breaks lines, a page has an end. */
const maxLengthOfPage = 512 * 1024

/** The lines of logs that a page may still show, and their characters; counted down by each step. */
export type LogBudget = { lines: number; length: number }

/** The budget of a page. */
export function newLogBudget(): LogBudget {
  return { lines: maxLinesOfPage, length: maxLengthOfPage }
}

/** The last lines of a step's output, with a link to all of them. */
export function stepLog(
  step: ShownStep,
  { logHref, isOpen, budget }: { logHref: string; isOpen: boolean; budget: LogBudget },
): Html {
  const all = outputLines(step.output)
  const lines = takeLast(all, isOpen ? maxLinesOfOpen : maxLinesOfFolded, budget)
  const left = all.length - lines.length
  const idPrefix = `s${step.number}-L`
  return html`${
    left > 0 &&
    html`<p class="log-note">${counted(left, 'earlier line is', 'earlier lines are')} not shown here. <a href="${logHref}">All ${grouped(all.length)} lines</a></p>`
  }<ol class="log" id="log-${step.number}" start="${left + 1}" data-all="${logHref}" tabindex="0" aria-label="Log of ${step.name}">${renderLogLines(lines, { idPrefix, firstNumber: left + 1 })}</ol>`
}

/** The last lines that the budget allows, which it then has less. */
function takeLast(all: readonly string[], maxLines: number, budget: LogBudget): string[] {
  const limit = Math.min(budget.lines, maxLines)
  let from = all.length
  while (from > 0 && all.length - from < limit) {
    const left = budget.length - (all[from - 1] ?? '').length
    if (left < 0) break
    budget.length = left
    from -= 1
  }
  budget.lines -= all.length - from
  return all.slice(from)
}
