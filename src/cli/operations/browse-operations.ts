import { StringDecoder } from 'node:string_decoder'
import type { Json } from '#base/json.ts'
import { toSafeJson } from '#base/safe-text.ts'
import { at, dateOf, listAt, shortOf, textAt } from '../terminal/display.ts'
import { downloadArchive } from './archive-downloads.ts'
import { logColumns, runBrowseCommit, runCompare, runListTree } from './browse-output.ts'
import type { ClientOperation, OptionRows, ServerWork } from './operation.ts'

const revOption = {
  '--rev <rev>': 'branch, tag, full ref name or id (default: the default branch)',
}
const pathBytes = { '--path-base64 <bytes>': 'the bytes of a path that is not UTF-8' }
const placeOptions: OptionRows = {
  ...revOption,
  '--path <path>': 'path in the repository (default: the root)',
  ...pathBytes,
}
const filePlaceOptions: OptionRows = {
  ...revOption,
  '--path <path>': 'path of the file, in place of the argument',
  ...pathBytes,
}
const diffPathOptions: OptionRows = {
  '--path <path>': 'print only this changed file or folder, with larger limits',
  ...pathBytes,
}
const refOptions: OptionRows = {
  '--filter <text>': 'only those with this part in their name',
  '--order <order>': 'by name, or the highest version first',
  '--points-at <ids>':
    'only those that point to one of these commits, whose ids are separated by commas',
  '--limit <number>': 'at most this many (default: 30)',
}

const fileNote = (command: string) =>
  `\n  svc browse ${command} src/main.c    of the clone that you are in\n`
const pathNote = (command: string) =>
  `\n  svc browse ${command} site src\n  svc browse ${command} src/   in a clone; without a slash it is a repository\n`
const patchNote = (example: string) =>
  `\nIn a pipe, the patch has only files that git can apply; others are named on\nstandard error.\n\n  ${example}\n`

/** Reading without a clone. */
export const browseOperations: ClientOperation[] = [
  {
    command: 'browse branches',
    operations: ['listBranches'],
    summary: 'list branches, ahead and behind of a base',
    arguments: ['repository'],
    options: {
      '--base <rev>': 'what branches are compared with (default: the default branch)',
      '--no-counts': 'leave out the comparison',
      ...refOptions,
    },
    table: {
      NAME: 'name',
      COMMIT: shortOf('id'),
      AHEAD: 'ahead',
      BEHIND: 'behind',
      DATE: dateOf('commit.at'),
      SUMMARY: 'commit.summary',
    },
  },
  {
    command: 'browse tags',
    operations: ['listTags'],
    summary: 'list tags',
    arguments: ['repository'],
    options: refOptions,
    table: {
      NAME: 'name',
      TYPE: 'type',
      COMMIT: shortOf('commit'),
      TAGGER: 'tagger.name',
      MESSAGE: (row) => textAt(row, 'message').split('\n', 1)[0] ?? '',
    },
  },
  {
    command: 'browse file',
    operations: ['getFile'],
    summary: 'print a file',
    arguments: ['repository', 'path'],
    options: {
      ...filePlaceOptions,
      '--lfs': 'of a file in Git LFS, its object in place of its pointer',
    },
    notes: fileNote('file'),
    runOnServer: runPrintFile,
  },
  {
    command: 'browse tree',
    operations: ['getTree'],
    summary: 'list a folder',
    arguments: ['repository', '[path]'],
    notes: pathNote('tree'),
    options: { ...placeOptions, '--recursive': 'also what is below' },
    run: runListTree,
  },
  {
    command: 'browse log',
    operations: ['listCommits'],
    summary: 'list commits, newest first',
    arguments: ['repository', '[path]'],
    notes: pathNote('log'),
    options: {
      ...placeOptions,
      '--author <text>': 'part of the name or address of the author',
      '--since <time>': 'only those of this time or later',
      '--until <time>': 'only those of this time or earlier',
      '--limit <number>': 'at most this many (default: 30)',
    },
    table: logColumns,
  },
  {
    command: 'browse commit',
    operations: ['getCommit'],
    summary: 'show a commit',
    arguments: ['repository', 'id'],
    options: { '--diff': 'also print what it changed, as a patch', ...diffPathOptions },
    notes: patchNote('svc browse commit site 1a2b3c4d --diff | git apply'),
    run: runBrowseCommit,
  },
  {
    command: 'browse compare',
    operations: ['compareCommits'],
    summary: 'compare two revisions, and print what the second one adds as a patch',
    arguments: ['repository', 'base', 'head'],
    options: {
      ...diffPathOptions,
      '--limit <number>': 'at most this many commits (default: 100)',
      '--no-diff': 'compare the commits alone',
      '--direct': 'the diff with the base itself, not with the merge base',
    },
    notes: patchNote('svc browse compare site main topic | git apply'),
    run: runCompare,
  },
  {
    command: 'browse blame',
    operations: ['getBlame'],
    summary: 'show which commit each line of a file is from',
    arguments: ['repository', 'path'],
    options: {
      ...filePlaceOptions,
      '--start <line>': 'the first line (default: 1)',
      '--end <line>': 'the last line (default: the last one of the file)',
    },
    notes: fileNote('blame'),
    table: {
      COMMIT: shortOf('commit.id'),
      AUTHOR: 'commit.author.name',
      DATE: dateOf('commit.author.at'),
      LINE: 'line',
      TEXT: 'text',
    },
    rows: blamedLines,
    note: (body) =>
      at(body, 'next') === null
        ? undefined
        : `For the lines that follow: --start ${textAt(body, 'next')}`,
  },
  {
    command: 'browse search',
    operations: ['searchCode'],
    summary: 'search the files of a commit for a text',
    arguments: ['repository', 'text'],
    options: {
      ...placeOptions,
      '--ignore-case': 'ignore the case of ASCII letters',
      '--limit <number>': 'maximum number of matches (default: 100)',
    },
    table: { PATH: 'path', LINE: 'line', TEXT: 'text' },
    rows: (body) => listAt(body, 'matches'),
    note: (body) =>
      at(body, 'isComplete') === true
        ? undefined
        : `There may be more matches; the search met these limits: ${textAt(body, 'limits')}`,
  },
  {
    command: 'browse archive',
    operations: ['getArchive'],
    summary: 'download the files of a commit as an archive',
    arguments: ['repository'],
    options: {
      ...placeOptions,
      '--format <format>': 'format of the archive (default: by the name of the file, else tar.gz)',
      '--output <file>': 'file to write (default: standard output)',
    },
    runOnServer: downloadArchive,
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

/** `svc browse file`: a pipe gets the bytes as they are; a terminal, text that does not control it. */
async function runPrintFile(work: ServerWork): Promise<void> {
  const { client, terminal, columns, json } = work
  const request = work.request()
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
