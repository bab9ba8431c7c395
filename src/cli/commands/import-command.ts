import type { App } from '#app.ts'
import { toSafeJson } from '#base/safe-text.ts'
import { importFailed } from '#git/import/import-error.ts'
import type { Progress } from '#git/import/progress.ts'
import { missingLfsNote } from '../client/operations/import-repository.ts'
import { localPrincipal } from './local.ts'
import type { Terminal } from './terminal.ts'

/** `svc repos import` */
export async function importRepository(
  { imports, tokens, changeRepositories }: App,
  [source, name]: [string, string | undefined],
  { username, json }: { username: string; json?: boolean },
  { out, err, progress, interruption }: Terminal,
) {
  let shown = ''
  const onProgress = ({ phase, percent }: Progress) => {
    const text = `Importing: ${phase}, ${percent} %`
    if (text !== shown) progress(text)
    shown = text
  }
  const owner = await tokens.ownerNamed(username)
  const signal = withProblem(interruption())
  const begin = async () => {
    // Until the import holds its own lock, a starting server would take it for an abandoned one.
    using _lock = await changeRepositories()
    const wanted = { source, name, owner, signal, recordsFailure: false, onProgress }
    return imports.start(localPrincipal, wanted)
  }
  const started = await begin()
  await started.ended.finally(() => progress(''))
  const repository = await started.describe()
  out(
    json
      ? toSafeJson(repository)
      : `Imported ${started.name} (${toMib(repository.sizeBytes)} MiB).\n`,
  )
  err(missingLfsNote(repository.missingLfsObjects))
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
