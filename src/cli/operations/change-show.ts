import type { Json } from '#base/json.ts'
import { toSafeJson } from '#base/safe-text.ts'
import { path } from '../servers/http-client.ts'
import { CommandError } from '../terminal/command-errors.ts'
import { at, type Columns, dateOf, listAt, textAt, toFields } from '../terminal/display.ts'
import type { ClientOperation, Work } from './operation.ts'

/** `svc changes show` */
export const changeShow: ClientOperation = {
  command: 'changes show',
  operations: ['getChange', 'listStatuses'],
  summary: 'show a change, and what it lacks',
  arguments: ['repository', 'number'],
  run: runShow,
}

async function runShow(work: Work): Promise<void> {
  const { client, json, terminal } = work
  const body = await client.json(work.request())
  if (json) {
    terminal.out(toSafeJson(body))
    return
  }
  const checks = await readChecks(work, textAt(body, 'commit'))
  terminal.out(toFields({ ...fields, Checks: () => checks, Description: 'description' }, body))
}

const fields: Columns = {
  Change: 'number',
  Title: 'title',
  State: 'state',
  Closed: closedText,
  For: 'target',
  By: 'username',
  Version: 'version',
  Commit: 'commit',
  Ref: 'ref',
  Page: 'url',
  'Builds on': 'buildsOn',
  'Built upon by': 'builtUponBy',
  Missing: missingText,
  Queue: queueText,
  Note: 'queueNote',
  Verdicts: (body) => listAt(body, 'verdicts').map(verdictText).join('\n'),
  Comments: commentsText,
}

function closedText(body: Json): string {
  if (at(body, 'closedAt') === null) return ''
  const closed = `${dateOf('closedAt')(body)} by ${textAt(body, 'closedBy')}`
  if (at(body, 'state') !== 'landed') return closed
  const push = at(body, 'pushId') === null ? '' : ` (push ${textAt(body, 'pushId')})`
  return `${closed}, as ${textAt(body, 'landedCommit')}${push}`
}

function missingText(body: Json): string {
  if (at(body, 'state') !== 'open') return ''
  const missing = listAt(body, 'missing')
  return missing.map((one) => textAt(one, 'detail')).join('\n') || 'nothing'
}

function queueText(body: Json): string {
  const queued = at(body, 'queued')
  if (queued === null) return ''
  const isTried = at(queued, 'state') === 'trying'
  const place = `place ${textAt(queued, 'position')}${isTried ? ', tried now' : ''}`
  const how = `${textAt(queued, 'method')}${at(queued, 'urgent') === true ? ', urgent' : ''}`
  return `${place}: version ${textAt(queued, 'version')} by ${how}, queued by ${textAt(queued, 'username')}`
}

function verdictText(verdict: Json): string {
  const words = at(verdict, 'verdict') === 'approve' ? 'approves' : 'requests changes of'
  const given = `${textAt(verdict, 'username')} ${words} version ${textAt(verdict, 'version')}`
  if (at(verdict, 'counts') === true) return given
  return `${given}, which does not count: ${textAt(verdict, 'reason')}`
}

function commentsText(body: Json): string {
  const unresolved = textAt(body, 'unresolvedThreads')
  return `${textAt(body, 'comments')}, unresolved threads: ${unresolved}`
}

/** What runs and checks from outside say of a commit: for each context, the newest status. */
async function readChecks({ client, input }: Work, commit: string): Promise<string> {
  const repository = input.argument('repository')
  const request = { method: 'GET', path: path`/repos/${repository}/commits/${commit}/statuses` }
  const statuses = await client.json(request).catch((error: unknown) => {
    // The token may lack the permission.
    if (error instanceof CommandError) return error.message
    throw error
  })
  if (!Array.isArray(statuses)) return String(statuses)
  const newest = new Map<string, Json>()
  for (const status of statuses) {
    const context = textAt(status, 'context')
    if (!newest.has(context)) newest.set(context, status)
  }
  return [...newest.values()].map(checkText).join('\n')
}

function checkText(status: Json): string {
  const run = textAt(status, 'run.number')
  const by = run === '' ? `by ${textAt(status, 'username')}` : `run ${run}`
  const description = textAt(status, 'description')
  const end = description === '' ? '' : `: ${description}`
  return `${textAt(status, 'state')} ${textAt(status, 'context')} (${by})${end}`
}
