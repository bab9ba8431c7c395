import type { Json } from '../../base/json.ts'
import { at, shortOf } from '../display.ts'
import { path } from '../http-client.ts'
import type { ClientOperation, OptionRow } from '../operation.ts'
import { timeOf } from './option-values.ts'
import { logColumns, runCommit, runCompare } from './run-browse-diff.ts'

const revOption: OptionRow = {
  flags: '--rev <rev>',
  description: 'branch, tag, full ref name or id (default: the default branch)',
}
const pathOptions: OptionRow[] = [
  { flags: '--path <path>', description: 'path in the repository (default: the root)' },
  { flags: '--path-base64 <bytes>', description: 'the bytes of a path that is not UTF-8' },
]

const diffPathOptions: OptionRow[] = [
  {
    flags: '--path <path>',
    description: 'print only this changed file or folder, with larger limits',
  },
  { flags: '--path-base64 <bytes>', description: 'the bytes of a path that is not UTF-8' },
]
const patchNote = (example: string) =>
  `\nIn a pipe, the patch has only files that git can apply: others are named on standard error.\n\n  ${example}\n`

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
    command: 'browse log',
    operations: ['listCommits'],
    summary: 'list commits, newest first',
    arguments: ['repository'],
    options: [
      revOption,
      ...pathOptions,
      { flags: '--author <text>', description: 'part of the name or address of the author' },
      { flags: '--since <time>', description: 'only those of this time or later' },
      { flags: '--until <time>', description: 'only those of this time or earlier' },
      { flags: '--limit <number>', description: 'at most this many (default: 30)' },
    ],
    request: ({ argument, option }) => ({
      method: 'GET',
      path: path`/repos/${argument('repository')}/commits`,
      query: {
        rev: option('rev'),
        path: option('path'),
        pathBase64: option('pathBase64'),
        author: option('author'),
        since: timeOf(option('since'), '--since'),
        until: timeOf(option('until'), '--until'),
      },
    }),
    show: { kind: 'table', isPaged: true, columns: logColumns },
  },
  {
    command: 'browse commit',
    operations: ['getCommit'],
    summary: 'show a commit',
    arguments: ['repository', 'id'],
    options: [
      { flags: '--diff', description: 'also print what it changed, as a patch' },
      ...diffPathOptions,
    ],
    notes: patchNote('svc browse commit site 1a2b3c4d --diff | git apply'),
    run: runCommit,
  },
  {
    command: 'browse compare',
    operations: ['compareCommits'],
    summary: 'compare two revisions, and print what the second one adds as a patch',
    arguments: ['repository', 'base', 'head'],
    options: [
      ...diffPathOptions,
      { flags: '--limit <number>', description: 'at most this many commits (default: 100)' },
    ],
    notes: patchNote('svc browse compare site main topic | git apply'),
    run: runCompare,
  },
]

function entriesOf(body: Json): Json[] {
  const entries = at(body, 'entries')
  return Array.isArray(entries) ? entries : []
}
