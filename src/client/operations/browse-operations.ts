import type { Json } from '../../base/json.ts'
import { at, dateOf, shortOf } from '../display.ts'
import { path } from '../http-client.ts'
import type { ClientOperation, OptionRow } from '../operation.ts'

const revOption: OptionRow = {
  flags: '--rev <rev>',
  description: 'branch, tag, full ref name or id (default: the default branch)',
}
const pathOptions: OptionRow[] = [
  { flags: '--path <path>', description: 'path in the repository (default: the root)' },
  { flags: '--path-base64 <bytes>', description: 'the bytes of a path that is not UTF-8' },
]

/** Reading without a clone. */
export const browseOperations: ClientOperation[] = [
  {
    command: 'browse tree',
    operations: ['getTree'],
    summary: 'list a folder',
    arguments: ['repository'],
    options: [revOption, ...pathOptions],
    request: ({ argument, option }) => ({
      method: 'GET',
      path: path`/repos/${argument('repository')}/tree`,
      query: { rev: option('rev'), path: option('path'), pathBase64: option('pathBase64') },
    }),
    show: {
      kind: 'table',
      rows: entriesOf,
      columns: { MODE: 'mode', ID: shortOf('id'), NAME: 'name' },
    },
  },
  {
    command: 'browse commit',
    operations: ['getCommit'],
    summary: 'show a commit',
    arguments: ['repository', 'id'],
    request: ({ argument }) => ({
      method: 'GET',
      path: path`/repos/${argument('repository')}/commits/${argument('id')}`,
    }),
    show: {
      kind: 'fields',
      columns: {
        Commit: 'id',
        Author: 'author.name',
        Date: dateOf('author.at'),
        Message: 'message',
      },
    },
  },
]

function entriesOf(body: Json): Json[] {
  const entries = at(body, 'entries')
  return Array.isArray(entries) ? entries : []
}
