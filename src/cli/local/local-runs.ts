import { localPrincipal } from '#access/principal.ts'
import type { App } from '#app.ts'
import type { Json } from '#base/json.ts'
import { importFailed } from '#git/import/import-error.ts'
import type { Progress } from '#git/import/progress.ts'
import { importAll } from '../operations/import-all.ts'
import { isForMany, missingLfsNote } from '../operations/import-repository.ts'
import type { Work } from '../operations/operation.ts'
import { path } from '../servers/http-client.ts'
import { UsageError } from '../terminal/command-errors.ts'
import { at, showResult, textAt } from '../terminal/display.ts'

export type LocalWork = Work & { app: App }

/** Commands that say or ask something else on a data directory than on a server. */
export const localRuns: Record<string, (work: LocalWork) => Promise<unknown>> = {
  'repos delete': deleteRepository,
  'deleted-repos purge': purgeRepository,
  'repos import': importInto,
  import: importInto,
}

async function deleteRepository(work: LocalWork): Promise<void> {
  const { app, client, input } = work
  const name = input.argument('name')
  // Not its description, which a repository without files does not have.
  const repository = await app.repositories.open(localPrincipal, name, 'repo:delete')
  const question = `This deletes ${name} and everything that belongs to it. Type its name to continue: `
  await confirmName(work, { question, name, unchanged: 'Nothing was deleted.' })
  const isKept = await app.deletedRepositories.isRetained(repository)
  await client.json({ method: 'DELETE', path: path`/repos/${name}` })
  const advice = isKept ? ` It can be restored: svc deleted-repos restore ${repository.id}` : ''
  showResult(work, { name, deleted: true }, `Deleted ${name}.${advice}`)
}

async function purgeRepository(work: LocalWork): Promise<void> {
  const { client, input } = work
  const id = input.argument('id')
  const found = (await listDeleted(client)).find((deleted) => at(deleted, 'id') === id) ?? null
  const name = textAt(found, 'name')
  const question = `This removes ${name} for good. Type its name to continue: `
  if (found) await confirmName(work, { question, name, unchanged: 'Nothing was removed.' })
  await client.json({ method: 'DELETE', path: path`/deleted-repos/${id}` })
  showResult(work, { id, name, purged: true }, `Purged ${name}.`)
}

function listDeleted(client: Work['client']): Promise<Json[]> {
  return client.list({ method: 'GET', path: '/deleted-repos' })
}

/** Asks on a terminal, unless there is `--yes`. */
async function confirmName(
  { input, terminal: { ask } }: LocalWork,
  { question, name, unchanged }: { question: string; name: string; unchanged: string },
): Promise<void> {
  if (!ask || input.flag('yes')) return
  if ((await ask(question)).trim() !== name) throw new Error(unchanged)
}

/** `svc repos import` into a data directory: the import ends with the command, and no server continues it. */
async function importInto(work: LocalWork): Promise<number> {
  const { input, terminal } = work
  if (isForMany(work)) {
    if (input.option('from') !== undefined)
      throw new UsageError('svc import --from needs a server: log in with svc login URL.')
    const importOne = async (source: string, name: string, prefix: string) =>
      // A description is JSON by its schema.
      (await importLocally(work, { source, name, prefix })) as unknown as Json
    return importAll(work, importOne)
  }
  const [source, name] = [input.argument('source'), input.argument('name') || undefined]
  const repository = await importLocally(work, { source, name, prefix: 'Importing' })
  const { sizeBytes, missingLfsObjects } = repository
  showResult(work, repository, `Imported ${repository.name} (${toMib(sizeBytes)} MiB).`)
  terminal.err(missingLfsNote(missingLfsObjects))
  return 0
}

async function importLocally(
  { app, input, terminal }: LocalWork,
  { source, name, prefix }: { source: string; name: string | undefined; prefix: string },
) {
  const { imports, tokens, changeRepositories } = app
  const { progress, interruption } = terminal
  let shown = ''
  const onProgress = ({ phase, percent }: Progress) => {
    const text = `${prefix}: ${phase}, ${percent} %`
    if (text !== shown) progress(text)
    shown = text
  }
  const owner = await tokens.ownerNamed(input.option('username') ?? 'admin')
  const signal = withProblem(interruption())
  const begin = async () => {
    // Until the import holds its own lock, a starting server would take it for an abandoned one.
    using _lock = await changeRepositories()
    const wanted = { source, name, owner, signal, recordsFailure: false, onProgress }
    return imports.start(localPrincipal, wanted)
  }
  const started = await begin()
  await started.ended.finally(() => progress(''))
  return started.describe()
}

// Aborts with a problem that can be shown to the user.
function withProblem(interrupted: AbortSignal): AbortSignal {
  const controller = new AbortController()
  interrupted.addEventListener('abort', () =>
    controller.abort(importFailed('Interrupted; nothing was changed.')),
  )
  return controller.signal
}

function toMib(bytes: number): string {
  return (bytes / 1024 ** 2).toFixed(1)
}
