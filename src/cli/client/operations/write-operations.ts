import type { Json } from '#base/json.ts'
import { at, textAt } from '../display.ts'
import { path } from '../http-client.ts'
import type { ClientOperation, OptionRow } from '../operation.ts'
import { authorOf } from './option-values.ts'
import { runCommit } from './run-commit.ts'

const expectedHead: OptionRow = {
  flags: '--expected-head <id>',
  description: 'commit that the branch must be at; 40 zeros for none',
}
const message: OptionRow = { flags: '--message -m <text>', description: 'the message' }
const identity: OptionRow[] = [
  { flags: '--author <author>', description: 'as "Name <email>" (default: you)' },
  { flags: '--date <time>', description: 'such as 2026-11-24T12:30:00+01:00' },
]

export const writeOperations: ClientOperation[] = [
  {
    command: 'commit',
    operations: ['createCommit'],
    summary: 'make a commit on a branch without a clone',
    arguments: ['repository', 'branch'],
    options: [
      message,
      {
        flags: '--add <file...>',
        description: 'write files, as path or path=localfile',
      },
      { flags: '--delete <path...>', description: 'delete files or directories' },
      { flags: '--move <path...>', description: 'move files or directories, as from=to' },
      { flags: '--start <revision>', description: 'where a new branch starts' },
      expectedHead,
      ...identity,
      { flags: '--allow-empty', description: 'make a commit that changes nothing, too' },
    ],
    notes: '\nThe mode of a local file is kept. The localfile - is standard input.\n',
    run: runCommit,
  },
  {
    command: 'merge',
    operations: ['createMerge'],
    summary: 'merge into a branch without a clone',
    arguments: ['repository', 'base', 'head'],
    options: [
      {
        flags: '--method <method>',
        description: 'how (default: merge)',
        choices: ['merge', 'squash', 'rebase', 'fast-forward'],
      },
      message,
      expectedHead,
      ...identity,
    ],
    request: (input) => ({
      method: 'POST',
      path: path`/repos/${input.argument('repository')}/merges`,
      body: {
        base: input.argument('base'),
        head: input.argument('head'),
        method: input.option('method') ?? 'merge',
        message: input.option('message'),
        expectedHead: input.option('expectedHead'),
        author: authorOf(input.option('author')),
        date: input.option('date'),
      },
    }),
    show: {
      kind: 'sentence',
      text: (body) =>
        at(body, 'merged') === true
          ? `${textAt(body, 'branch')} is now ${textAt(body, 'id')}.`
          : `${textAt(body, 'branch')} had everything already.`,
    },
  },
  {
    command: 'refs set',
    operations: ['setRef'],
    summary: 'create or move a branch, a tag or another ref',
    arguments: ['repository', 'ref', 'target'],
    options: [
      { flags: '--expected <id>', description: 'what it must be now; 40 zeros for a new one' },
      { flags: '--force', description: 'also when commits are lost, or a tag moves' },
    ],
    notes: '\n  svc refs set site refs/tags/v1 main\n',
    request: (input) => ({
      method: 'PUT',
      path: path`/repos/${input.argument('repository')}/refs`,
      query: { ref: input.argument('ref') },
      body: {
        target: input.argument('target'),
        expected: input.option('expected'),
        force: input.flag('force'),
      },
    }),
    show: {
      kind: 'sentence',
      text: (body) => `${textAt(body, 'ref')} is now ${textAt(body, 'id')}.`,
    },
  },
  {
    command: 'refs delete',
    operations: ['deleteRef'],
    summary: 'delete a branch, a tag or another ref; svc pushes undo restores it',
    arguments: ['repository', 'ref'],
    options: [{ flags: '--expected <id>', description: 'what it must be now' }],
    request: (input) => ({
      method: 'DELETE',
      path: path`/repos/${input.argument('repository')}/refs`,
      query: { ref: input.argument('ref'), expected: input.option('expected') },
    }),
    show: {
      kind: 'sentence',
      text: (_, { argument }) => `Deleted ${argument('ref')}.`,
      json: ({ argument }): Json => ({ ref: argument('ref'), deleted: true }),
    },
  },
]
