import { printable } from '#base/format.ts'
import { toSafeJson } from '#base/safe-text.ts'
import { UsageError } from '../commands/usage-error.ts'
import { localName } from './chosen-server.ts'
import type { ClientContext, OptionValues } from './client-context.ts'
import { connectClient } from './connect.ts'
import { textAt } from './display.ts'
import { notSvc } from './http-client.ts'

/** `svc login --web`: the address is all that standard output has, for a program that opens it. */
export async function printLoginLink(
  context: ClientContext,
  server: string | undefined,
  options: OptionValues,
): Promise<void> {
  const { terminal } = context
  if (server !== undefined && options.server !== undefined) {
    throw new UsageError('Name the server once: as an argument or with --server.')
  }
  const { client } = await connectClient(context, { ...options, server: server ?? options.server })
  if (!client) {
    throw new UsageError(
      `--web needs a server that you are logged in to, and ${localName} is a data directory.`,
    )
  }
  const link = await client.json({ method: 'POST', path: '/login-codes' })
  // A browser would execute or open other addresses.
  if (!/^https?:\/\/[^/]/.test(textAt(link, 'url'))) throw notSvc(client.url)
  if (options.json === true) return terminal.out(toSafeJson(link))
  terminal.out(`${printable(textAt(link, 'url'))}\n`)
  terminal.err('Open this address in a browser within a minute; it works once.\n')
}
