import { lstat, readFile, readlink } from 'node:fs/promises'
import { CommandError, UsageError } from '../terminal/command-errors.ts'
import { at, showResult, textAt } from '../terminal/display.ts'
import type { ClientOperation, OptionRows, Work } from './operation.ts'
import { pathOf } from './operation-request.ts'

const message = { '--message -m <text>': 'the message' }
const expectedHead = {
  '--expected-head <id>': 'commit that the branch must be at; 40 zeros for none',
}
const identity: OptionRows = {
  '--author <author>': 'as "Name <email>" (default: you)',
  '--date <time>': 'such as 2026-11-24T12:30:00+01:00',
}

export const writeOperations: ClientOperation[] = [
  {
    command: 'commit',
    operations: ['createCommit', 'proposeCommit'],
    summary: 'make a commit on a branch without a clone',
    arguments: ['repository', 'branch'],
    options: {
      ...message,
      '--add <file...>': 'write files, as path or path=localfile',
      '--delete <path...>': 'delete files or directories',
      '--move <path...>': 'move files or directories, as from=to',
      '--start <revision>': 'where a new branch starts',
      ...expectedHead,
      ...identity,
      '--allow-empty': 'make a commit that changes nothing, too',
      '--propose': 'propose it as a change; the branch stays as it is',
    },
    notes: '\nThe mode of a local file is kept. The localfile - is standard input.\n',
    run: runCommit,
  },
  {
    command: 'merge',
    operations: ['createMerge'],
    summary: 'merge into a branch without a clone',
    arguments: ['repository', 'base', 'head'],
    options: {
      '--method <method>': 'how (default: merge)',
      ...message,
      ...expectedHead,
      ...identity,
    },
    fill: ({ option }) => ({ method: option('method') ?? 'merge' }),
    sentence: (body) =>
      at(body, 'merged') === true
        ? `${textAt(body, 'branch')} is now ${textAt(body, 'id')}.`
        : `${textAt(body, 'branch')} had everything already.`,
  },
  {
    command: 'refs set',
    operations: ['setRef'],
    summary: 'create or move a branch, a tag or another ref',
    arguments: ['repository', 'ref', 'target'],
    options: {
      '--expected <id>': 'what it must be now; 40 zeros for a new one',
      '--force': 'also when commits are lost, or a tag moves',
    },
    notes: '\n  svc refs set site refs/tags/v1 main\n',
    sentence: (body) => `${textAt(body, 'ref')} is now ${textAt(body, 'id')}.`,
  },
  {
    command: 'refs delete',
    operations: ['deleteRef'],
    summary: 'delete a branch, a tag or another ref; svc pushes undo restores it',
    arguments: ['repository', 'ref'],
    options: { '--expected <id>': 'what it must be now' },
    sentence: (_, { argument }) => `Deleted ${argument('ref')}.`,
    json: ({ argument }) => ({ ref: argument('ref'), deleted: true }),
  },
]

const executable = 0o100

/** `svc commit` */
async function runCommit(work: Work): Promise<void> {
  const { client, input } = work
  if (input.option('message') === undefined)
    throw new UsageError('Give the message: --message or -m.')
  const added = await Promise.all((input.list('add') ?? []).map((word) => readAdded(work, word)))
  const deleted = (input.list('delete') ?? []).map((name) => ({ path: pathOf(name), delete: true }))
  const moved = (input.list('move') ?? []).map(toMove)
  const fields = { changes: [...added, ...deleted, ...moved] }
  if (input.flag('propose')) {
    if (input.option('expectedHead') !== undefined || input.flag('allowEmpty'))
      throw new UsageError('--propose goes with neither --expected-head nor --allow-empty.')
    const body = await client.json(work.request(fields, 'proposeCommit'))
    return showResult(work, body, `Change ${textAt(body, 'number')}: ${textAt(body, 'url')}`)
  }
  const body = await client.json(work.request(fields))
  showResult(work, body, `${textAt(body, 'branch')} is now ${textAt(body, 'id')}.`)
}

/** A value of `--add`: the path in the repository and, after `=`, that of the local file. */
async function readAdded({ terminal }: Work, word: string) {
  const [, given = word, local = word] = /^([^=]*)=(.*)$/s.exec(word) ?? []
  const name = pathOf(given)
  if (local === '-')
    return { path: name, contentBase64: (await terminal.read()).toString('base64') }
  try {
    const file = await lstat(local)
    if (file.isSymbolicLink()) {
      const target = await readlink(local, { encoding: 'buffer' })
      return { path: name, contentBase64: target.toString('base64'), mode: '120000' }
    }
    const contentBase64 = (await readFile(local)).toString('base64')
    return { path: name, contentBase64, mode: file.mode & executable ? '100755' : '100644' }
  } catch (error) {
    throw new CommandError('failure', `${local} cannot be read; nothing was changed.`, {
      cause: error,
    })
  }
}

function toMove(word: string) {
  const [, moveFrom, to] = /^([^=]+)=(.+)$/s.exec(word) ?? []
  if (moveFrom === undefined || to === undefined)
    throw new UsageError(`--move ${word}: the form is from=to.`)
  return { path: pathOf(to), moveFrom: pathOf(moveFrom) }
}
