import type { Static } from 'typebox'
import { printable, printableLine, toDate } from '#base/format.ts'
import type { Json } from '#base/json.ts'
import { toSafeJson } from '#base/safe-text.ts'
import type { Diff } from '#browse/diff-schemas.ts'
import { toPatch } from '#browse/patch-text.ts'
import {
  at,
  type Columns,
  dateOf,
  shortOf,
  textAt,
  toFields,
  toFittedTable,
} from '../terminal/display.ts'
import type { Work } from './operation.ts'

/** `svc browse commit` */
export async function runBrowseCommit(work: Work): Promise<void> {
  const { client, input, terminal, json } = work
  const { query = {} } = work.request()
  const withDiff = input.flag('diff') === true || (query.path ?? query.pathBase64) !== undefined
  const body = await client.json(work.request({ diff: withDiff || undefined }))
  if (json) terminal.out(toSafeJson(body))
  else if (!withDiff) terminal.out(toFields(commitFields, body))
  else {
    terminal.out(toHeader(body))
    showPatch(work, at(body, 'diff'))
  }
}

const commitFields = {
  Commit: 'id',
  Author: 'author.name',
  Date: dateOf('author.at'),
  Message: firstLine,
}

/** `svc browse compare` */
export async function runCompare(work: Work): Promise<void> {
  const { client, terminal, json, columns } = work
  const body = await client.json(work.request())
  if (json) {
    terminal.out(toSafeJson(body))
    return
  }
  const fields = { Status: 'status', Ahead: 'ahead', Behind: 'behind', Base: 'mergeBase' }
  terminal.out(toFields(fields, body))
  const commits = at(body, 'commits')
  if (Array.isArray(commits) && commits.length > 0)
    terminal.out(`\n${toFittedTable(logColumns, commits, columns)}`)
  const diff = at(body, 'diff')
  if (diff === undefined) return
  terminal.out('\n')
  showPatch(work, diff)
}

/** The columns of a list of commits. */
export const logColumns = {
  ID: shortOf('id'),
  DATE: dateOf('author.at'),
  AUTHOR: 'author.name',
  MESSAGE: firstLine,
}

/** The first line of a message. */
function firstLine(commit: Json): string {
  return textAt(commit, 'message').split('\n', 1)[0] ?? ''
}

// As git-show(1) prints it. Indented lines of a message cannot be taken as a part of the patch.
function toHeader(body: Json): string {
  const time = at(body, 'author.at')
  const message = textAt(body, 'message').trimEnd().split('\n')
  return [
    `commit ${printable(textAt(body, 'id'))}`,
    `Author: ${printable(`${textAt(body, 'author.name')} <${textAt(body, 'author.email')}>`)}`,
    `Date:   ${typeof time === 'number' ? toDate(time) : ''}`,
    '',
    ...message.map((line) => `    ${printableLine(line)}`),
    '',
    '',
  ].join('\n')
}

// A pipe gets what git-apply(1) takes.
function showPatch({ terminal, columns }: Work, diff: Json): void {
  // The server responds with this type: see its OpenAPI document.
  const shown = diff as unknown as Static<typeof Diff>
  const { patch, omitted } = toPatch(shown, { forPeople: columns !== undefined })
  terminal.out(columns === undefined ? patch : patch.toString())
  for (const text of omitted)
    terminal.err(
      `svc: not ${columns === undefined ? '' : 'completely '}in the patch: ${printable(text)}\n`,
    )
}

const ofEntry: Columns = { MODE: 'mode', ID: shortOf('id'), SIZE: 'size' }
const ofCommit: Columns = { DATE: dateOf('lastCommit.at'), SUMMARY: 'lastCommit.summary' }

/** `svc browse tree`: all pages of a listing, as one. */
export async function runListTree(work: Work): Promise<void> {
  const { client, input, terminal, json } = work
  const isRecursive = input.flag('recursive') === true
  const entries: Json[] = []
  for (let cursor: string | undefined; ; ) {
    const page = await client.json(work.request({ cursor }))
    const added = at(page, 'entries')
    if (Array.isArray(added)) entries.push(...added)
    const next = textAt(page, 'nextCursor')
    const limits = at(page, 'limits')
    if (next === '' || next === cursor) {
      if (json) terminal.out(toSafeJson({ ...Object(page), entries }))
      else {
        const shown = { ...ofEntry, ...(isRecursive ? {} : ofCommit), PATH: 'path' }
        terminal.out(toFittedTable(shown, entries, work.columns))
        for (const limit of Array.isArray(limits) ? limits : [])
          terminal.err(`${printable(String(limit))}\n`)
      }
      return
    }
    cursor = next
  }
}
