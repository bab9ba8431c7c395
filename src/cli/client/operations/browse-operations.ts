import { StringDecoder } from 'node:string_decoder'
import type { Json } from '#base/json.ts'
import { toSafeJson } from '#base/safe-text.ts'
import { at, dateOf, shortOf, textAt } from '../display.ts'
import { path } from '../http-client.ts'
import type { ClientOperation, CommandInput, OptionRow, Work } from '../operation.ts'
import { downloadArchive } from './download-archive.ts'
import { placeOf, timeOf, wholeOf } from './option-values.ts'
import { logColumns, runBrowseCommit, runCompare } from './run-browse-diff.ts'
import { runListTree } from './run-list-tree.ts'

const revOption: OptionRow = {
  flags: '--rev <rev>',
  description: 'branch, tag, full ref name or id (default: the default branch)',
}
const pathOptions: OptionRow[] = [
  { flags: '--path <path>', description: 'path in the repository (default: the root)' },
  { flags: '--path-base64 <bytes>', description: 'the bytes of a path that is not UTF-8' },
]

const filePathOptions: OptionRow[] = [
  { flags: '--path <path>', description: 'path of the file, in place of the argument' },
  { flags: '--path-base64 <bytes>', description: 'the bytes of a path that is not UTF-8' },
]
const fileNote = (command: string) =>
  `\n  svc browse ${command} src/main.c    of the clone that you are in\n`
const pathNote = (command: string) =>
  `\n  svc browse ${command} site src\n  svc browse ${command} src/   in a clone; without a slash it is a repository\n`

const diffPathOptions: OptionRow[] = [
  {
    flags: '--path <path>',
    description: 'print only this changed file or folder, with larger limits',
  },
  { flags: '--path-base64 <bytes>', description: 'the bytes of a path that is not UTF-8' },
]
const patchNote = (example: string) =>
  `\nIn a pipe, the patch has only files that git can apply; others are named on\nstandard error.\n\n  ${example}\n`

const refOptions: OptionRow[] = [
  { flags: '--filter <text>', description: 'only those with this part in their name' },
  {
    flags: '--order <order>',
    description: 'by name, or the highest version first',
    choices: ['name', 'version'],
  },
  {
    flags: '--points-at <ids>',
    description: 'only those that point to one of these commits, whose ids are separated by commas',
  },
]

const refQuery = ({ option }: CommandInput) => ({
  filter: option('filter'),
  order: option('order'),
  pointsAt: option('pointsAt'),
})

/** Reading without a clone. */
export const browseOperations: ClientOperation[] = [
  {
    command: 'browse branches',
    operations: ['listBranches'],
    summary: 'list branches, ahead and behind of a base',
    arguments: ['repository'],
    options: [
      {
        flags: '--base <rev>',
        description: 'what branches are compared with (default: the default branch)',
      },
      { flags: '--no-counts', description: 'leave out the comparison' },
      ...refOptions,
      { flags: '--limit <number>', description: 'at most this many (default: 30)' },
    ],
    request: (input) => ({
      method: 'GET',
      path: path`/repos/${input.argument('repository')}/branches`,
      query: {
        base: input.option('base'),
        counts: input.flag('counts') === false ? false : undefined,
        ...refQuery(input),
      },
    }),
    show: {
      kind: 'table',
      isPaged: true,
      columns: {
        NAME: 'name',
        COMMIT: shortOf('id'),
        AHEAD: 'ahead',
        BEHIND: 'behind',
        DATE: dateOf('commit.at'),
        SUMMARY: 'commit.summary',
      },
    },
  },
  {
    command: 'browse tags',
    operations: ['listTags'],
    summary: 'list tags',
    arguments: ['repository'],
    options: [
      ...refOptions,
      { flags: '--limit <number>', description: 'at most this many (default: 30)' },
    ],
    request: (input) => ({
      method: 'GET',
      path: path`/repos/${input.argument('repository')}/tags`,
      query: refQuery(input),
    }),
    show: {
      kind: 'table',
      isPaged: true,
      columns: {
        NAME: 'name',
        TYPE: 'type',
        COMMIT: shortOf('commit'),
        TAGGER: 'tagger.name',
        MESSAGE: (row) => textAt(row, 'message').split('\n', 1)[0] ?? '',
      },
    },
  },
  {
    command: 'browse file',
    operations: ['getFile'],
    summary: 'print a file',
    arguments: ['repository', 'path'],
    options: [revOption, ...filePathOptions],
    notes: fileNote('file'),
    run: runPrintFile,
  },
  {
    command: 'browse tree',
    operations: ['getTree'],
    summary: 'list a folder',
    arguments: ['repository', '[path]'],
    notes: pathNote('tree'),
    options: [
      revOption,
      ...pathOptions,
      { flags: '--recursive', description: 'also what is below' },
    ],
    run: runListTree,
  },
  {
    command: 'browse log',
    operations: ['listCommits'],
    summary: 'list commits, newest first',
    arguments: ['repository', '[path]'],
    notes: pathNote('log'),
    options: [
      revOption,
      ...pathOptions,
      { flags: '--author <text>', description: 'part of the name or address of the author' },
      { flags: '--since <time>', description: 'only those of this time or later' },
      { flags: '--until <time>', description: 'only those of this time or earlier' },
      { flags: '--limit <number>', description: 'at most this many (default: 30)' },
    ],
    request: (input) => ({
      method: 'GET',
      path: path`/repos/${input.argument('repository')}/commits`,
      query: {
        ...placeOf(input),
        author: input.option('author'),
        since: timeOf(input.option('since'), '--since'),
        until: timeOf(input.option('until'), '--until'),
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
    run: runBrowseCommit,
  },
  {
    command: 'browse compare',
    operations: ['compareCommits'],
    summary: 'compare two revisions, and print what the second one adds as a patch',
    arguments: ['repository', 'base', 'head'],
    options: [
      ...diffPathOptions,
      { flags: '--limit <number>', description: 'at most this many commits (default: 100)' },
      { flags: '--no-diff', description: 'compare the commits alone' },
    ],
    notes: patchNote('svc browse compare site main topic | git apply'),
    run: runCompare,
  },
  {
    command: 'browse blame',
    operations: ['getBlame'],
    summary: 'show which commit each line of a file is from',
    arguments: ['repository', 'path'],
    options: [
      revOption,
      ...filePathOptions,
      { flags: '--start <line>', description: 'the first line (default: 1)' },
      { flags: '--end <line>', description: 'the last line (default: the last one of the file)' },
    ],
    notes: fileNote('blame'),
    request: (input) => ({
      method: 'GET',
      path: path`/repos/${input.argument('repository')}/blame`,
      query: {
        ...placeOf(input),
        start: wholeOf(input.option('start'), '--start'),
        end: wholeOf(input.option('end'), '--end'),
      },
    }),
    show: {
      kind: 'table',
      rows: blamedLines,
      columns: {
        COMMIT: shortOf('commit.id'),
        AUTHOR: 'commit.author.name',
        DATE: dateOf('commit.author.at'),
        LINE: 'line',
        TEXT: 'text',
      },
      note: (body) =>
        at(body, 'next') === null
          ? undefined
          : `For the lines that follow: --start ${textAt(body, 'next')}`,
    },
  },
  {
    command: 'browse search',
    operations: ['searchCode'],
    summary: 'search the files of a commit for a text',
    arguments: ['repository', 'text'],
    options: [
      revOption,
      ...pathOptions,
      { flags: '--ignore-case', description: 'ignore the case of ASCII letters' },
      { flags: '--limit <number>', description: 'maximum number of matches (default: 100)' },
    ],
    request: (input) => ({
      method: 'GET',
      path: path`/repos/${input.argument('repository')}/search`,
      query: {
        ...placeOf(input),
        q: input.argument('text'),
        ignoreCase: input.flag('ignoreCase'),
        limit: wholeOf(input.option('limit'), '--limit'),
      },
    }),
    show: {
      kind: 'table',
      rows: (body) => listAt(body, 'matches'),
      columns: { PATH: 'path', LINE: 'line', TEXT: 'text' },
      note: (body) =>
        at(body, 'isComplete') === true
          ? undefined
          : `There may be more matches; the search met these limits: ${textAt(body, 'limits')}`,
    },
  },
  {
    command: 'browse archive',
    operations: ['getArchive'],
    summary: 'download the files of a commit as an archive',
    arguments: ['repository'],
    options: [
      revOption,
      ...pathOptions,
      {
        flags: '--format <format>',
        description: 'format of the archive (default: by the name of the file, else tar.gz)',
        choices: ['tar.gz', 'zip', 'tar'],
      },
      { flags: '--output <file>', description: 'file to write (default: standard output)' },
    ],
    run: downloadArchive,
  },
]

/** The lines of all ranges, each with its commit. */
function blamedLines(body: Json): Json[] {
  const commits = new Map(listAt(body, 'commits').map((commit) => [textAt(commit, 'id'), commit]))
  return listAt(body, 'ranges').flatMap((range) => {
    const commit = commits.get(textAt(range, 'commit')) ?? null
    const start = Number(at(range, 'start'))
    return listAt(range, 'lines').map((text, index) => ({ commit, line: start + index, text }))
  })
}

function listAt(body: Json, name: string): Json[] {
  const list = at(body, name)
  return Array.isArray(list) ? list : []
}

/** `svc browse file`: a pipe gets the bytes as they are; a terminal, text that does not control it. */
async function runPrintFile({ client, input, terminal, columns, json }: Work): Promise<void> {
  const request = {
    method: 'GET',
    path: path`/repos/${input.argument('repository')}/file`,
    query: placeOf(input),
  }
  if (json) {
    terminal.out(toSafeJson(await client.json(request)))
    return
  }
  const body = await client.stream(request, 'text/plain', 'application/octet-stream')
  const decoder = new StringDecoder('utf8')
  for await (const bytes of body) {
    if (columns === undefined) await terminal.write(bytes)
    else terminal.out(decoder.write(bytes))
  }
}
