import type { App } from '#app.ts'
import { printable } from '#base/format.ts'
import { toSafeJson } from '#base/safe-text.ts'
import type { Terminal } from './terminal.ts'
import { UsageError } from './usage-error.ts'

/** `svc store adopt` */
export async function adoptInto(
  app: App,
  { json }: { json?: boolean },
  { out, err, interruption }: Terminal,
) {
  const { shared } = app.store
  if (!shared) {
    throw new UsageError('Set SVC_STORE to the store that repositories are to be moved into.')
  }
  const { adopted, refused, runFiles } = await app.adoptRepositories(shared, {
    report: (progress) => err(`${printable(progress)}\n`),
    signal: interruption(),
  })
  if (json) out(toSafeJson({ adopted, refused, runFiles }))
  else {
    out(`${adopted.length} ${adopted.length === 1 ? 'repository' : 'repositories'} moved.\n`)
    if (runFiles > 0) out(`${runFiles} artifacts and caches of runs copied.\n`)
    for (const { name, reason } of refused) out(`${name} was not moved: ${printable(reason)}.\n`)
  }
  if (refused.length > 0) {
    throw new Error('Correct or delete what was not moved (svc repos delete NAME), and repeat.')
  }
  if (!json && adopted.length > 0) {
    out(
      'The directories repositories/, deleted/ and run-files/ are no longer needed; delete them when everything works.\n',
    )
  }
}
