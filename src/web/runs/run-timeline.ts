import { type Html, html } from '../render/html.ts'
import { describeState, type ShownRun, type ShownStep } from '../run-states.ts'
import { toDuration } from '../time.ts'

type Job = ShownRun['jobs'][number]
type Bar = { from: number; to: number; tone: string; words: string }

const gridLines = [20, 40, 60, 80]
const gapPercent = 0.3

/** The jobs of a run over time: a row for each, with a bar for each step. */
export function runTimeline(run: ShownRun, steps: readonly ShownStep[], now: number): Html | false {
  const jobs = run.jobs.filter(({ startedAt }) => startedAt !== null)
  const starts = jobs.flatMap(({ startedAt }) => (startedAt === null ? [] : [startedAt]))
  if (jobs.length === 0) return false
  const start = Math.min(...starts)
  const end = Math.max(...jobs.map((job) => job.completedAt ?? now), start + 1)
  const toPercent = (at: number) =>
    ((Math.min(Math.max(at, start), end) - start) / (end - start)) * 100
  return html`<figure class="timeline"><figcaption class="hidden">Jobs over time, ${toDuration(end - start)} in all</figcaption>
${jobs.map((job) => {
  const bars = barsOf(job, steps, end)
  const words = bars.map((bar) => bar.words).join('; ')
  return html`<span class="cut">${job.name}</span><svg width="100%" height="22" role="img" aria-label="${job.name}: ${words}">
${gridLines.map((x) => html`<line x1="${x}%" x2="${x}%" y1="0" y2="22"/>`)}
${bars.map(({ from, to, tone, words: title }) => {
  const [x, until] = [toPercent(from), toPercent(to)]
  const width = Math.max(0.4, until - x - gapPercent)
  return html`<rect class="bar-${tone || 'none'}" x="${x.toFixed(2)}%" y="7" width="${width.toFixed(2)}%" height="8" rx="3"><title>${title}</title></rect>`
})}</svg>`
})}</figure>`
}

/** The bars of a job: those of its steps, where neighbours of the same state are one. */
function barsOf(job: Job, steps: readonly ShownStep[], now: number): Bar[] {
  const bars: Bar[] = []
  const own = steps.filter((step) => step.job === job.name && step.file === job.file)
  for (const step of own) {
    if (step.startedAt === null) continue
    const { tone, word } = describeState(step)
    const to = step.completedAt ?? now
    const words = `${step.name} ${word.toLowerCase()}, ${toDuration(to - step.startedAt)}`
    const last = bars.at(-1)
    if (last?.tone === tone) {
      last.to = to
      last.words += `; ${words}`
    } else bars.push({ from: step.startedAt, to, tone, words })
  }
  return bars
}
