import { posix } from 'node:path'
import { fullNameOf } from '#base/repository-name.ts'
import { writeFresh } from '../sandbox/workspace-files.ts'
import type { CheckoutInput, CheckoutStep } from '../workflow-parser/workflow.ts'
import { nameOfRef } from './contexts.ts'
import type { Plan } from './plan.ts'
import { evaluateEnvironment, evaluateTimeout } from './planning/evaluate-settings.ts'
import { numberedSteps, type PlannedStep } from './planning/plan-steps.ts'
import type { Checkout, SourceRequest } from './run-state.ts'
import type { RunningJob, RunningStep } from './running-job.ts'
import { ended, type StepEnd } from './step-end.ts'
import { withinTime } from './storage-step.ts'

/** The file among those of a workspace with the Git settings for its credentials: not part of the files to keep. */
export const credentialsFile = 'git-credentials'

/** An input of a checkout with a value that cannot be used. Users see the message. */
class CheckoutInputError extends Error {
  override readonly name = 'CheckoutInputError'
}

/** Checks out what a step asks for, unless the workspace has it from the start. */
export async function runCheckoutStep(
  options: RunningStep & { step: CheckoutStep },
): Promise<StepEnd> {
  const { running, step, scope, signal, output } = options
  const { run, workspace, files } = running
  const { plan } = run
  const { inputs, timeoutMs } = await files.evaluate(() => ({
    inputs: evaluateEnvironment(step.with, scope),
    timeoutMs: evaluateTimeout(step.timeoutMinutes, scope, plan.limits),
  }))
  const input = (name: CheckoutInput) => (inputs[name] ?? '').trim()
  assertOwnRepository(input('repository'), plan)
  const source = toSource(input, plan)
  const folder = toFolder(input('path'), workspace.inside.workspace)
  persistCredentials(input, running)
  const isFirst = !running.checkedOut.has(folder)
  running.checkedOut.add(folder)
  const hasFiles = running.hasFiles && folder === '' && isFirst && source.ref === undefined
  if (hasFiles && source.depth === 1 && !source.tags) {
    await output.note(`${plan.commit} is already checked out.\n`)
    return ended('success', { outputs: { commit: plan.commit, ref: plan.ref } })
  }
  const checkout: Checkout = {
    source,
    folder,
    files: hasFiles ? 'keep' : flagOf(input('clean'), 'clean', true) ? 'replace' : 'add',
  }
  return withinTime({ signal, timeoutMs }, async (limited) => {
    const { commit, ref } = await run.checkOutAgain(workspace, checkout, limited)
    running.files.forgetHashes()
    await output.note(`${describe(checkout)} of ${ref || commit}: ${commit}\n`)
    return ended('success', { outputs: { commit, ref: ref || commit } })
  })
}

/** Whether the checkouts of a job are all for folders, so that the top of its workspace is empty at the start. */
export function leavesTopEmpty(steps: readonly PlannedStep[]): boolean {
  const checkouts = steps
    .flatMap(numberedSteps)
    .flatMap(({ step }) => (step.kind === 'checkout' ? [step] : []))
  const isTop = ({ with: { path } }: CheckoutStep) => /^[./]*$/.test(path?.text ?? '')
  return checkouts.length > 0 && !checkouts.some(isTop)
}

function assertOwnRepository(named: string, { repository }: Plan): void {
  const own = fullNameOf(repository)
  if (named === '' || named.toLowerCase() === own.toLowerCase()) return
  throw new CheckoutInputError(
    `The workspace has the repository ${own} only, not ${named}. A "run" step can clone another one, if it has the network.`,
  )
}

function toSource(input: (name: CheckoutInput) => string, plan: Plan): SourceRequest {
  const ref = input('ref')
  const isOwn = ['', plan.commit, plan.ref, nameOfRef(plan.ref).name].includes(ref)
  const depth = input('fetchDepth') || '1'
  if (!/^\d{1,9}$/.test(depth)) {
    throw new CheckoutInputError(`fetch-depth is ${depth}, which is no number of commits.`)
  }
  return {
    ref: isOwn ? undefined : ref,
    depth: Number(depth),
    tags: flagOf(input('fetchTags'), 'fetch-tags', false),
  }
}

function flagOf(text: string, name: string, byDefault: boolean): boolean {
  if (text === '') return byDefault
  if (/^(true|false)$/i.test(text)) return text.toLowerCase() === 'true'
  throw new CheckoutInputError(`${name} is ${text}, which is neither true nor false.`)
}

/** Lets git in the steps that follow use the token of the job, or the given one, for the server. */
function persistCredentials(
  input: (name: CheckoutInput) => string,
  { run, workspace, identity }: RunningJob,
): void {
  const token = input('token') || identity?.token
  const isWanted = flagOf(input('persistCredentials'), 'persist-credentials', true)
  const credentials = Buffer.from(`x-access-token:${token}`).toString('base64')
  const lines = [
    `[http ${quoteGitValue(run.plan.serverUrl)}]`,
    `\textraheader = ${quoteGitValue(`Authorization: Basic ${credentials}`)}`,
    '',
  ]
  const text = isWanted && token !== undefined ? lines.join('\n') : ''
  writeFresh(`${workspace.outside.files}/${credentialsFile}`, text)
}

/** A folder relative to the workspace, empty for its top. */
function toFolder(path: string, workspace: string): string {
  const folder = posix.relative(workspace, posix.resolve(workspace, path))
  if (folder !== '..' && !folder.startsWith('../')) return folder
  throw new CheckoutInputError(`path is ${path}, which is not below the workspace, ${workspace}.`)
}

function describe({ source: { depth }, folder, files }: Checkout): string {
  const history = depth === 0 ? 'The history' : depth === 1 ? 'The commit' : `${depth} commits`
  if (files === 'keep') return history
  return `${history} and the files${folder === '' ? '' : ` (in ${folder})`}`
}

/** Quotes a value or the name of a subsection: git-config(1), Syntax. */
export function quoteGitValue(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`
}
