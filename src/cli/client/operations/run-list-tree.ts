import { printable } from '#base/format.ts'
import type { Json } from '#base/json.ts'
import { toSafeJson } from '#base/safe-text.ts'
import { at, dateOf, shortOf, textAt, toFittedTable } from '../display.ts'
import { path } from '../http-client.ts'
import type { Cell, Work } from '../operation.ts'
import { placeOf } from './option-values.ts'

const columns: Record<string, Cell> = {
  MODE: 'mode',
  ID: shortOf('id'),
  SIZE: 'size',
  DATE: dateOf('lastCommit.at'),
  SUMMARY: 'lastCommit.summary',
  PATH: 'path',
}
const columnsWithoutCommits: Record<string, Cell> = {
  MODE: 'mode',
  ID: shortOf('id'),
  SIZE: 'size',
  PATH: 'path',
}

/** `svc browse tree`: all pages of a listing, as one. */
export async function runListTree(work: Work): Promise<void> {
  const { client, input, terminal, json } = work
  const isRecursive = input.flag('recursive') === true
  const entries: Json[] = []
  for (let cursor: string | undefined; ; ) {
    const page = await client.json({
      method: 'GET',
      path: path`/repos/${input.argument('repository')}/tree`,
      query: { ...placeOf(input), recursive: isRecursive || undefined, cursor },
    })
    const added = at(page, 'entries')
    if (Array.isArray(added)) entries.push(...added)
    const next = textAt(page, 'nextCursor')
    const limits = at(page, 'limits')
    if (next === '' || next === cursor) {
      if (json) terminal.out(toSafeJson({ ...Object(page), entries }))
      else {
        const shown = isRecursive ? columnsWithoutCommits : columns
        terminal.out(toFittedTable(shown, entries, work.columns))
        for (const limit of Array.isArray(limits) ? limits : [])
          terminal.err(`${printable(String(limit))}\n`)
      }
      return
    }
    cursor = next
  }
}
