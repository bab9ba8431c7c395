import type { App } from '../app.ts'
import { importFailed } from '../git/import/import-error.ts'
import type { Progress } from '../git/import/progress.ts'
import { localPrincipal } from './local.ts'
import { type Terminal, toJson } from './terminal.ts'

/** `svc repos import` */
export async function importRepository(
  { imports, tokens, changeRepositories }: App,
  [source, name]: [string, string | undefined],
  { username, json }: { username: string; json?: boolean },
  { out, progress, interruption }: Terminal,
) {
  let shown = ''
  const onProgress = ({ phase, percent }: Progress) => {
    const text = `Importing: ${phase}, ${percent} %`
    if (text !== shown) progress(text)
    shown = text
  }
  const owner = await tokens.ownerNamed(username)
  const signal = asFault(interruption())
  const begin = async () => {
    // A starting server must not take the import for one that nobody works on before its lock is held.
    using _quiet = await changeRepositories()
    const wanted = { source, name, owner, signal, keepsFault: false, onProgress }
    return imports.start(localPrincipal, wanted)
  }
  const started = await begin()
  await started.ended.finally(() => progress(''))
  const repository = await started.describe()
  out(
    json ? toJson(repository) : `Imported ${started.name} (${toMib(repository.sizeBytes)} MiB).\n`,
  )
}

/** A signal whose reason is told as it is. */
function asFault(interrupted: AbortSignal): AbortSignal {
  const given = new AbortController()
  interrupted.addEventListener('abort', () =>
    given.abort(importFailed('Interrupted; nothing was changed.')),
  )
  return given.signal
}

function toMib(bytes: number): string {
  return (bytes / 1024 ** 2).toFixed(1)
}
