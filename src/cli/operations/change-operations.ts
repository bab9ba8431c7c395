import { printable } from '#base/format.ts'
import type { Json } from '#base/json.ts'
import { at, dateOf, shortOf, showResult, textAt } from '../terminal/display.ts'
import { changeFetch } from './change-fetch.ts'
import type { ClientOperation } from './operation.ts'

const texts = {
  '--title <text>': 'its title',
  '--description <text>': 'its description, Markdown',
}

const text = { '--text <text>': 'its text, Markdown' }

/** Commands for what is proposed for branches. */
export const changeOperations: ClientOperation[] = [
  {
    command: 'changes list',
    operations: ['listChanges'],
    summary: 'list what is proposed',
    arguments: ['repository'],
    options: {
      '--state <state>': 'only changes in this state (default: open)',
      '--target <branch>': 'only changes for this branch',
      '--source <branch>': 'only changes that follow this branch',
      '--username <user>': 'only changes that this user has proposed',
      '--waiting': 'only changes that wait for you',
      '--limit <number>': 'at most this many (default: 100)',
    },
    fill: ({ option }) => ({ state: option('state') ?? 'open' }),
    table: {
      NUMBER: 'number',
      STATE: 'state',
      VERSION: 'version',
      TARGET: 'target',
      BY: 'username',
      COMMIT: shortOf('commit'),
      UPDATED: dateOf('updatedAt'),
      TITLE: 'title',
    },
  },
  {
    command: 'changes waiting',
    operations: ['listWaitingChanges'],
    summary: 'list what waits for you, in all repositories',
    options: { '--limit <number>': 'at most this many (default: 50)' },
    table: {
      REPOSITORY: 'repository',
      NUMBER: 'number',
      TARGET: 'target',
      BY: 'username',
      UPDATED: dateOf('updatedAt'),
      TITLE: 'title',
    },
  },
  {
    command: 'changes show',
    operations: ['getChange'],
    summary: 'show a change, and what it lacks',
    arguments: ['repository', 'number'],
    fields: {
      Change: 'number',
      Title: 'title',
      State: 'state',
      For: 'target',
      By: 'username',
      Version: 'version',
      Commit: 'commit',
      Ref: 'ref',
      Missing: (body) => missingIn(body),
      Page: 'url',
    },
  },
  changeFetch,
  {
    command: 'changes diff',
    operations: ['compareChangeVersions'],
    summary: 'compare two of its versions',
    arguments: ['repository', 'number', 'from', 'to'],
    run: async (work) => {
      const body = await work.client.json(work.request())
      showResult(work, body, versionDiff(body))
    },
  },
  {
    command: 'changes propose',
    operations: ['openChange'],
    summary: 'propose a branch for another one',
    arguments: ['repository', 'source', 'target'],
    options: texts,
    notes:
      '\nThe pushes of the branch make further versions. To propose without a branch:\n  git push origin HEAD:refs/for/main\n',
    sentence: (body) => `Change ${textAt(body, 'number')}: ${textAt(body, 'url')}`,
  },
  {
    command: 'changes edit',
    operations: ['updateChange'],
    summary: 'edit, abandon or reopen a change',
    arguments: ['repository', 'number'],
    options: { ...texts, '--state <state>': 'abandoned, or open' },
    sentence: (body) => `Change ${textAt(body, 'number')} is ${textAt(body, 'state')}.`,
  },
  {
    command: 'changes comments',
    operations: ['listChangeComments'],
    summary: 'list the comments on a change',
    arguments: ['repository', 'number'],
    options: {
      '--path <path>': 'only comments on this file',
      '--on-files': 'only comments on files and their lines',
      '--limit <number>': 'at most this many (default: 100)',
    },
    table: {
      ID: 'id',
      BY: 'username',
      VERSION: 'version',
      PATH: 'path',
      LINE: 'line',
      NOW: 'currentLine',
      RESOLVED: 'resolvedBy',
      TEXT: 'text',
    },
  },
  {
    command: 'changes comment',
    operations: ['commentOnChange'],
    summary: 'comment on a change, file or line',
    arguments: ['repository', 'number'],
    options: {
      ...text,
      '--path <path>': 'the file',
      '--line <number>': 'the line of the file',
      '--side <side>': 'new, or old for a line of the base',
      '--version <number>': 'the version (default: the last)',
      '--reply-to <id>': 'a comment of the thread that it continues',
    },
    sentence: (body) => `Commented: ${textAt(body, 'id')}`,
  },
  {
    command: 'changes edit-comment',
    operations: ['updateChangeComment'],
    summary: 'edit a comment, or resolve it',
    arguments: ['repository', 'number', 'id'],
    options: { ...text, '--resolved <state>': 'whether its thread is resolved' },
    sentence: (body) => `Saved: ${textAt(body, 'id')}`,
  },
  {
    command: 'changes approve',
    operations: ['judgeChange'],
    summary: 'approve its last version, or not',
    arguments: ['repository', 'number', 'version'],
    options: { '--verdict <verdict>': 'another verdict (default: approve)' },
    fill: ({ argument, option }) => ({
      version: Number(argument('version')),
      verdict: option('verdict') ?? 'approve',
    }),
    sentence: (body) => `Change ${textAt(body, 'number')}: ${textAt(body, 'url')}`,
  },
  {
    command: 'changes land',
    operations: ['landChange'],
    summary: 'land a change on its branch',
    arguments: ['repository', 'number'],
    options: {
      '--method <method>': 'how (default: merge)',
      '--version <number>': 'the version that must be the last one',
      '--message -m <text>': 'the message of a merge or squash',
      '--urgent': 'before the others in the queue',
    },
    fill: ({ option, flag }) => ({
      method: option('method') ?? 'merge',
      ...(flag('urgent') && { urgent: true }),
    }),
    sentence: (body) =>
      textAt(body, 'state') === 'open'
        ? `Change ${textAt(body, 'number')} is in the queue of ${textAt(body, 'target')}.`
        : `Change ${textAt(body, 'number')} has landed: ${textAt(body, 'target')} is now ${textAt(body, 'landedCommit')}.`,
  },
  {
    command: 'changes withdraw',
    operations: ['withdrawChange'],
    summary: 'take a change out of the queue',
    arguments: ['repository', 'number'],
    sentence: (body) => `Change ${textAt(body, 'number')} is not in the queue.`,
  },
  {
    command: 'changes queue',
    operations: ['listQueue'],
    summary: 'list the changes that wait to land',
    arguments: ['repository'],
    rows: (body) =>
      (body as { target: string; changes: object[] }[]).flatMap(({ target, changes }) =>
        changes.map((change) => ({ target, ...change })),
      ),
    table: {
      ...{ TARGET: 'target', PLACE: 'position', NUMBER: 'number', TITLE: 'title' },
      ...{ STATE: 'state', METHOD: 'method', URGENT: 'urgent', USER: 'username' },
    },
  },
]

/** As git-range-diff(1) shows it. */
function versionDiff(body: Json): string {
  const { commits } = body as { commits: Record<string, string>[] }
  if (at(body, 'isSame') === true) return 'Both have the same commits.'
  const shown = commits.map(({ status, subject, diff = '' }) =>
    [`${status}: ${printable(subject ?? '')}`, ...diff.split('\n').map(printable)].join('\n    '),
  )
  return shown.join('\n').trimEnd()
}

function missingIn(body: unknown): string {
  const missing = body as { missing?: { detail: string }[] }
  return missing.missing?.map(({ detail }) => detail).join(' ') || 'nothing'
}
