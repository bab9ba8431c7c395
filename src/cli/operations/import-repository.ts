import { setTimeout } from 'node:timers/promises'
import type { Json } from '#base/json.ts'
import { path } from '../servers/http-client.ts'
import { CommandError } from '../terminal/command-errors.ts'
import { at, showResult, textAt } from '../terminal/display.ts'
import type { Work } from './operation.ts'

const pollIntervalMs = 500

/** `svc repos import`: shows the progress until the import has finished. */
export async function runImport(work: Work): Promise<void> {
  const { client, terminal } = work
  const headers = { prefer: 'respond-async' }
  let repository: Json = await client.json({ ...work.request(), headers })
  const name = textAt(repository, 'name')
  let shown = ''
  try {
    while (at(repository, 'state') === 'importing') {
      const progress = `Importing: ${textAt(repository, 'import.phase')}, ${textAt(repository, 'import.progress')} %`
      if (progress !== shown) terminal.progress(progress)
      shown = progress
      await setTimeout(pollIntervalMs)
      repository = await client.json({ method: 'GET', path: path`/repos/${name}` })
    }
  } finally {
    terminal.progress('')
  }
  if (at(repository, 'state') !== 'ready') {
    const detail = textAt(repository, 'import.fault.detail')
    throw new CommandError('failure', `The import failed. ${detail}`.trim())
  }
  showResult(work, repository, `Imported ${name}.`)
  terminal.err(missingLfsNote(Number(at(repository, 'missingLfsObjects') ?? 0)))
}

/** A line about the objects of Git LFS that an import left behind; empty when there were none. */
export function missingLfsNote(count: number): string {
  if (count === 0) return ''
  const objects = count === 1 ? '1 Git LFS object' : `${count} Git LFS objects`
  return (
    `svc: Not imported: ${objects}, which files of this repository name. Push them from a clone of the source: ` +
    'run "git lfs fetch --all" there, and then "git lfs push --all" to this repository.\n'
  )
}
