import type { App } from '../app.ts'
import { localPrincipal } from './local.ts'
import { type Terminal, toJson } from './terminal.ts'

/** `svc repos import` */
export async function importRepository(
  { imports, tokens }: App,
  [source, name]: [string, string | undefined],
  { username, json }: { username: string; json?: boolean },
  { out, progress, interruption }: Terminal,
) {
  let shown = ''
  const started = await imports.start(localPrincipal, {
    source,
    name,
    owner: await tokens.ownerNamed(username),
    keepsFault: false,
    signal: interruption(),
    onProgress({ phase, percent }) {
      const text = `Importing: ${phase}, ${percent} %`
      if (text !== shown) progress(text)
      shown = text
    },
  })
  await started.ended.finally(() => progress(''))
  const repository = await started.describe()
  out(
    json ? toJson(repository) : `Imported ${started.name} (${toMib(repository.sizeBytes)} MiB).\n`,
  )
}

function toMib(bytes: number): string {
  return (bytes / 1024 ** 2).toFixed(1)
}
