import { lstat, readFile, readlink } from 'node:fs/promises'
import { UsageError } from '../../commands/usage-error.ts'
import { CommandError } from '../command-error.ts'
import { textAt } from '../display.ts'
import { path } from '../http-client.ts'
import type { Work } from '../operation.ts'
import { showResult } from '../show-result.ts'
import { authorOf, pathOf } from './option-values.ts'

const executable = 0o100

/** `svc commit` */
export async function runCommit(work: Work): Promise<void> {
  const { client, input } = work
  const message = input.option('message')
  if (message === undefined) throw new UsageError('Give the message: --message or -m.')
  const added = await Promise.all((input.list('add') ?? []).map((word) => readAdded(work, word)))
  const deleted = (input.list('delete') ?? []).map((name) => ({ path: pathOf(name), delete: true }))
  const body = await client.json({
    method: 'POST',
    path: path`/repos/${input.argument('repository')}/commits`,
    body: {
      branch: input.argument('branch'),
      start: input.option('start'),
      expectedHead: input.option('expectedHead'),
      message,
      author: authorOf(input.option('author')),
      date: input.option('date'),
      changes: [...added, ...deleted, ...(input.list('move') ?? []).map(toMove)],
      allowEmpty: input.flag('allowEmpty'),
    },
  })
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
