import { hash } from 'node:crypto'
import { apiPathOf } from '#base/repository-name.ts'
import { shellWord } from '#base/shell-word.ts'
import { documentPlace } from '../code/document-view.ts'
import { counted } from '../display-text.ts'
import { doneNotice } from '../done.ts'
import { annotationList } from '../history/annotation-view.ts'
import { copyButton, icon } from '../icons.ts'
import { action, type PageContext, page, type View } from '../page.ts'
import { formButton } from '../page-forms.ts'
import { problemNotice } from '../problem-page.ts'
import type { LogSegment } from '../render/ansi-log.ts'
import { type Html, html } from '../render/html.ts'
import { createLogLineReader, outputLines, renderSegments } from '../render/log-lines.ts'
import {
  describeState,
  type ShownRun,
  type ShownStep,
  stateBadge,
  stateMark,
  waitingSentence,
} from '../run-states.ts'
import { toDuration } from '../time.ts'
import { artifactSection } from './run-artifacts.ts'
import { causeOf, durationOf, sourceOf } from './run-facts.ts'
import { newLogBudget, stepLog } from './run-log-view.ts'
import { runTimeline } from './run-timeline.ts'

const path = '/r/:name/runs/:number'
const digestLines = 12

const toRunPage = ({ to, params }: PageContext) => to.of(params.name ?? '', `runs/${params.number}`)

export const runPages = [
  page(path, ['getRun', 'listArtifacts'], {
    weight: 'git',
    audience: 'members',
    styles: 'runs',
    show: showRun,
  }),
  action(`${path}/rerun`, 'rerunRun', {
    formPage: path,
    input: ({ params, fields }) => ({
      params: { id: params.number ?? '' },
      body: { jobs: fields.get('jobs') === 'failed' ? 'failed' : 'all' },
    }),
    redirectTo: toRunPage,
    done: { text: 'The run is started again.' },
  }),
  action(`${path}/approve`, 'approveRun', {
    formPage: path,
    input: ({ params }) => ({ params: { id: params.number ?? '' } }),
    redirectTo: toRunPage,
    done: { text: 'The run is approved.' },
  }),
  action(`${path}/cancel`, 'cancelRun', {
    formPage: path,
    input: ({ params }) => ({ params: { id: params.number ?? '' } }),
    redirectTo: toRunPage,
    done: { text: 'The run is cancelled.' },
  }),
]

async function showRun(context: PageContext): Promise<View> {
  const { params, query, to, time, read } = context
  const { name = '', number = '' } = params
  const attempt = query.get('attempt') || undefined
  const [run, artifacts = []] = await Promise.all([
    read('getRun', { params: { id: number }, query: { attempt } }),
    context.tryRead('listArtifacts', { params: { id: number } }),
  ])
  const mayDelete = artifacts.length > 0 && (await context.may('deleteArtifact'))
  const steps = run.steps ?? run.result?.steps ?? []
  const isStateOnly = query.has('state')
  const isRunning = run.status !== 'completed'
  const ofAttempt = attempt === undefined ? '' : `attempt=${encodeURIComponent(attempt)}`
  const logHref = `${to.of(name, `runs/${run.number}/log`)}${ofAttempt && `?${ofAttempt}`}`
  const stream = `${to.of(name, `runs/${run.number}/live`)}?${new URLSearchParams({ after: String(run.logBytes ?? 0) })}`
  const budget = newLogBudget()
  const opened = openSteps(steps)
  const head = await runHead(run, context)
  const shell = await shellCommand(run, context)
  const waits = run.needsApproval && (await approvalOf(run, context))
  const summaries = isStateOnly ? [] : await runSummaries(run, steps, context)
  return {
    title: `${run.name} ${run.number} · ${name} · svc`,
    repository: name,
    tab: 'runs',
    crumbs: [{ text: 'runs', href: to.of(name, 'runs') }, { text: String(run.number) }],
    json: `${apiPathOf(name)}/workflows/${run.id}`,
    live: isRunning && attempt === undefined ? stream : '',
    body: html`${doneNotice(context)}${problemNotice(context)}
<div id="run-head" data-part>${head}</div>
<div class="run-layout">
<nav class="run-side" id="run-side" data-part aria-label="Jobs and steps">${sideList(run, steps, time.at)}
<p class="run-links"><a href="${logHref}">Whole log</a> · <a href="${logHref}${ofAttempt ? '&' : '?'}plain">as text</a></p></nav>
<div class="run-main">
<div id="run-digest" data-part>${waits}${digest(run, steps, context)}${shell}</div>
<div id="run-timeline" data-part>${runTimeline(run, steps, time.at)}</div>
<div id="run-annotations" data-part>${annotationList(run.annotations, { to, name, commit: run.commit })}</div>
<div id="run-artifacts" data-part>${doneNotice(context, { at: 'run-artifacts' })}${artifactSection(artifacts, context, mayDelete)}</div>
${summaries}
<div id="run-steps">${steps.map((step) => {
      const isOpen = opened.has(step.number)
      return html`<details class="card step" id="step-${step.number}" data-part="new"${isOpen && html` open`}>
<summary id="summary-${step.number}" data-part class="${step.status}">${icon('right', 'chevron')}${stateMark(step)}<h2>${run.jobs.length > 1 && html`<span class="soft">${step.job} › </span>`}${step.name}</h2>${durationOf(step, time.at)}</summary>
${stepLog(isStateOnly ? { ...step, output: '' } : step, { logHref: `${logHref}${ofAttempt ? '&' : '?'}step=${step.number}`, isOpen, budget })}
${step.fault && html`<p class="log-note ${describeState(step).tone}">${step.fault}</p>`}</details>`
    })}</div>
${steps.length === 0 && run.fault === null && html`<p class="card empty" id="run-empty" data-part>${run.needsApproval ? 'Waiting for an approval.' : isRunning ? 'Waiting for a runner.' : 'This run had no steps.'}</p>`}
</div></div>`,
  }
}

/** The steps that are open at first: those that run or failed, else the last one that did anything. */
function openSteps(steps: readonly ShownStep[]): Set<number> {
  const of = (test: (step: ShownStep) => boolean) => steps.filter(test).map(({ number }) => number)
  const important = of(
    ({ status, success }) => status === 'running' || (status === 'completed' && !success),
  )
  return new Set(important.length > 0 ? important : of(({ output }) => output !== '').slice(-1))
}

async function runHead(run: ShownRun, context: PageContext): Promise<Html> {
  const { to, params, time, may, query } = context
  const name = params.name ?? ''
  const self = to.of(name, `runs/${run.number}`)
  const isFormer = query.has('attempt')
  const isRunning = run.status !== 'completed'
  const mayTrigger = !isFormer && (await may(isRunning ? 'cancelRun' : 'rerunRun'))
  const hasFailed = run.conclusion !== 'success' && run.jobs.length > 0
  const started =
    run.startedAt === null
      ? html`queued ${time.age(run.queuedAt)}`
      : html`started ${time.age(run.startedAt)}`
  const attempts = [
    ...run.attempts.map(({ attempt }) => attempt),
    ...(isFormer ? [] : [run.attempt]),
  ]
  return html`<div class="page-head"><h1>${run.name} <span class="soft light">${run.number}</span></h1>
${
  mayTrigger &&
  html`<div class="actions">${
    isRunning
      ? html`<form method="post" action="${self}/cancel"><button>${icon('stop')}Cancel</button></form>`
      : html`${hasFailed && html`<form method="post" action="${self}/rerun"><input type="hidden" name="jobs" value="failed"><button>${icon('again')}Run failed jobs again</button></form>`}
<form method="post" action="${self}/rerun"><button>${icon('again')}Run again</button></form>`
  }</div>`
}</div>
<p class="run-facts">${stateBadge(run)} ${causeOf(run)} ${sourceOf(to, name, run)}
<span class="fact">${icon('history')}<span>${started}${run.startedAt !== null && html`, ${isRunning ? 'running for' : 'took'} ${durationOf(run, time.at)}`}</span></span>
${run.restricted && html`<span class="fact" title="Its commit is of a user who may not push to this repository">${icon('shield')}without secrets</span>`}
${run.isolation !== null && html`<span class="fact" title="${run.isolation}">${icon('shield')}${run.isolation.startsWith('none:') ? 'without a sandbox' : 'in a sandbox'}</span>`}</p>
${
  (attempts.length > 1 || isFormer) &&
  html`<p class="run-attempts soft">Attempts: ${run.attempts.map(
    (one) =>
      html`<a href="${self}?attempt=${one.attempt}"${String(one.attempt) === query.get('attempt') && html` aria-current="page"`}>${one.attempt} ${describeState({ status: 'completed', conclusion: one.conclusion }).word.toLowerCase()}</a> · `,
  )}<a href="${self}"${!isFormer && html` aria-current="page"`}>${isFormer ? 'latest' : `${run.attempt} latest`}</a></p>`
}`
}

/** Why a run waits for an approval, and the form that approves it. */
async function approvalOf({ actor, number }: ShownRun, context: PageContext): Promise<Html> {
  const { to, params, may } = context
  const at = to.of(params.name ?? '', `runs/${number}/approve`)
  return html`<section class="digest"><h2>${icon('waiting')}Waiting for an approval</h2>
<p>${waitingSentence(actor)}</p>${(await may('approveRun')) && formButton(at, 'Approve', { className: 'primary' })}</section>`
}

function sideList(run: ShownRun, steps: readonly ShownStep[], now: number): Html {
  return html`<ul>${run.jobs.map((job) => {
    const own = steps.filter((step) => step.job === job.name && step.file === job.file)
    return html`<li><p class="side-job">${stateMark(job)}<b class="grow">${job.name}</b> ${durationOf(job, now)}</p>
${job.fault !== null && html`<p class="soft">${job.fault}</p>`}
<ol>${own.map(
      (step) =>
        html`<li><a href="#step-${step.number}"${step.status === 'running' && html` aria-current="step"`}>${stateMark(step)}<span class="grow">${step.name}</span> ${durationOf(step, now)}</a></li>`,
    )}</ol></li>`
  })}</ul>`
}

/** The command for a shell in the workspace of a failed job, while that is kept. */
async function shellCommand(run: ShownRun, { params, may }: PageContext): Promise<Html | false> {
  const { workspaces = [] } = run.failure ?? {}
  const [first] = workspaces
  if (!first || !(await may('openShell'))) return false
  const job = workspaces.length > 1 ? ` --job ${shellWord(first.job)}` : ''
  const command = `svc runs shell ${params.name} ${run.number}${job}`
  return html`<p class="soft">Open a shell in its workspace: <code>${command}</code> ${copyButton(command)}</p>`
}

/** What failed, with the end of its output, and the commits since the last success. */
function digest(
  run: ShownRun,
  steps: readonly ShownStep[],
  { to, params }: PageContext,
): Html | false {
  const name = params.name ?? ''
  const { failure } = run
  const failed = steps.find(
    ({ conclusion, job, name: step }) =>
      (conclusion === 'failure' || conclusion === 'timed_out') &&
      (run.status !== 'completed' || (job === failure?.job && step === failure.step)),
  )
  if (!failed) return faultDigest(run)
  const job = run.jobs.length > 1 ? `${failed.job} ` : ''
  const verb = failed.conclusion === 'timed_out' ? 'timed out' : 'failed'
  const code = failed.exitCode === null ? '' : `Exit code ${failed.exitCode} `
  const green = failure?.lastGreenRun
  const since = failure?.commitsSince.length ?? 0
  const lastCommit = green && to.compare(name, green.commit, run.commit)
  return html`<section class="digest"><h2>${icon('cross', 'bad')}<a href="#step-${failed.number}">${job}${verb} in ${failed.name}</a></h2>
<p class="soft">${code}${code ? 'after' : 'After'} ${toDuration(failed.duration)}. ${failed.fault && `${failed.fault} `}${
    green
      ? html`It last succeeded in <a href="${to.of(name, `runs/${green.number}`)}">run ${green.number}</a>${since > 0 && html`, <a href="${lastCommit}">${counted(since, 'commit')}</a> ago`}.`
      : failure && 'It has not succeeded on this branch.'
  }</p>
${(failure?.annotations ?? []).map(({ file, line, message }) => html`<p class="bad">${file !== '' && html`<span class="mono">${file}${line !== null && `:${line}`}</span> `}${message}</p>`)}
${digestLog(failed)}</section>`
}

/** Why a run without a failed step has ended; several faults of workflow files are one a line. */
function faultDigest(run: ShownRun): Html | false {
  const { shape, tone } = describeState(run)
  const { job = null, reason = run.fault } = run.failure ?? {}
  if (reason === null) return false
  if (job !== null)
    return html`<section class="digest"><h2>${icon('cross', 'bad')}${job} failed</h2><p>${reason}</p></section>`
  const [first = '', ...others] = reason.split('\n')
  const title = others.length === 0 ? first : 'The workflow cannot run'
  return html`<section class="digest ${tone || 'soft'}"><h2>${icon(shape, tone)}${title}</h2>
${others.length > 0 && html`<ul>${[first, ...others].map((fault) => html`<li>${fault}</li>`)}</ul>`}</section>`
}

/** The last lines of a failed step that are not empty, from the first that looks like an error. */
function digestLog({ output }: ShownStep): Html | false {
  const read = createLogLineReader()
  const shown = outputLines(output)
    .slice(-200)
    .map(read)
    .flatMap((line) => (line.kind === 'text' ? [line.segments] : []))
    .filter((segments) => segments.some(([, text]) => text.trim() !== ''))
  const lines = shown.slice(-digestLines)
  const first = lines.findIndex(isLikelyError)
  const chosen = first === -1 ? lines : lines.slice(first)
  return (
    chosen.length > 0 &&
    html`<pre class="digest-log" tabindex="0" role="region" aria-label="Last lines of the log">${chosen.map((segments) => html`${renderSegments(segments)}\n`)}</pre>`
  )
}

/** Whether a line is likely to say what went wrong. */
function isLikelyError(segments: readonly LogSegment[]): boolean {
  return segments.some(
    ([classes, text]) =>
      /\b(?:ansi-red|bad)\b/.test(classes) ||
      /\b(?:error|fail(?:ed|ure)?|fatal)\b|[✖✗✘]/i.test(text),
  )
}

/** Those of more steps are shown as text: each may take as long as a document. */
const maxRendered = 20

/** The summaries that steps wrote, in Markdown. */
async function runSummaries(
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
