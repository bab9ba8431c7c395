import { printableLine } from '#base/format.ts'
import { toPatch } from '#browse/patch-text.ts'
import { RawResponse } from '../page.ts'
import type { OperationValues } from '../read-operations.ts'
import type { ShownDiff } from './diff-context.ts'

export type PatchFormat = '.diff' | '.patch'

/** The changes of a commit as text: as of git-diff(1), or with its message as of git-format-patch(1). */
export function patchResponse(
  commit: OperationValues['getCommit'],
  format: PatchFormat,
): RawResponse {
  const { diff } = commit
  if (!diff) throw new Error('a commit without its diff')
  return toResponse(diff, format === '.patch' ? mailHeader(commit) : '')
}

/** Changes as text, as of git-diff(1). */
export function diffResponse(diff: ShownDiff): RawResponse {
  return toResponse(diff, '')
}

function toResponse(diff: ShownDiff, header: string): RawResponse {
  const { patch, omitted } = toPatch(diff, { forPeople: false })
  // Git skips lines before the first file.
  const notes = omitted.map((text) => `# Not in this patch: ${printableLine(text)}\n`).join('')
  const content = Buffer.concat([Buffer.from(header + notes), patch])
  return new RawResponse('text/plain; charset=utf-8', content)
}

function mailHeader({ id, author, message }: OperationValues['getCommit']): string {
  const [subject = '', ...body] = message.trim().split('\n')
  const lines = [
    `From ${id} Mon Sep 17 00:00:00 2001`,
    `From: ${oneLine(author.name)} <${oneLine(author.email)}>`,
    `Date: ${mailDate(author)}`,
    `Subject: [PATCH] ${oneLine(subject)}`,
    '',
    // A line that looks like the start of the diff would end the message.
    ...body.map((line) => line.replace(/^(?=diff -|---|Index: |From )/, ' ')),
    '---',
    '',
  ]
  return lines.join('\n')
}

function oneLine(text: string): string {
  return text.replace(/[\r\n]+/g, ' ')
}

/** A time with its zone: RFC 5322, section 3.3. */
function mailDate({ at, timeZone }: { at: number; timeZone: string }): string {
  const [, sign = '+', hours = '00', minutes = '00'] = /^([+-])(\d\d)(\d\d)$/.exec(timeZone) ?? []
  const offset = (Number(hours) * 60 + Number(minutes)) * (sign === '-' ? -1 : 1)
  const local = new Date(Math.max(-8.6e15, Math.min(8.6e15, at + offset * 60_000)))
  return local.toUTCString().replace('GMT', `${sign}${hours}${minutes}`)
}
