import { setTimeout } from 'node:timers/promises'
import type { Json } from '#base/json.ts'
import { path } from '../servers/http-client.ts'
import { CommandError, UsageError } from '../terminal/command-errors.ts'
import { at, showResult, textAt } from '../terminal/display.ts'
import type { Work } from './operation.ts'

const pollIntervalMs = 500

/** `svc repos import` on a server. The number that it returns is its exit code. */
export async function runImport(work: Work): Promise<number> {
  if (isForMany(work)) {
    const { importAll } = await import('./import-all.ts')
    return importAll(work, (source, name, prefix) => importOnServer(work, { source, name, prefix }))
  }
  const { terminal, input } = work
  const [source, name] = [input.argument('source'), input.argument('name') || undefined]
  const repository = await importOnServer(work, { source, name, prefix: 'Importing' })
  showResult(work, repository, `Imported ${textAt(repository, 'name')}.`)
  terminal.err(missingLfsNote(Number(at(repository, 'missingLfsObjects') ?? 0)))
  return 0
}

/** Whether more than one repository is to be imported. Throws a UsageError when nothing is. */
export function isForMany({ input }: Pick<Work, 'input'>): boolean {
  if (input.option('all') !== undefined) return true
  if (input.argument('source') === '')
    throw new UsageError('Give the source; svc import --help shows the arguments.')
  if (input.option('from') !== undefined) return true
  if (input.flag('dryRun')) throw new UsageError('--dry-run is for --all and --from.')
  if (input.option('visibility') !== undefined) throw new UsageError('--visibility is for --all.')
  return false
}

type Source = { source: string; name: string | undefined; prefix: string }

/** Imports a repository and shows the progress until the import has finished. */
async function importOnServer(work: Work, { source, name: wanted, prefix }: Source): Promise<Json> {
  const { client, terminal } = work
  const headers = { prefer: 'respond-async' }
  let repository: Json = await client.json({ ...work.request({ source, name: wanted }), headers })
  const name = textAt(repository, 'name')
  let shown = ''
  try {
    while (at(repository, 'state') === 'importing') {
      const progress = `${prefix}: ${textAt(repository, 'import.phase')}, ${textAt(repository, 'import.progress')} %`
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
  return repository
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
