import { printable } from '#base/format.ts'
import { toSafeJson } from '#base/safe-text.ts'
import { CommandError } from '../command-error.ts'
import { textAt } from '../display.ts'
import type { Work } from '../operation.ts'

/** `svc health`. Fails unless the server can write, so that scripts need not read the status. */
export async function runHealth({ client, json, terminal }: Work): Promise<void> {
  const body = await client.json({ method: 'GET', path: '/health' })
  const { openapi, info } = await describeServer(client)
  const result = { url: client.url, status: textAt(body, 'status'), version: info }
  if (json) terminal.out(toSafeJson(result))
  else {
    const lines = [`Server: ${client.url}`, `Status: ${result.status}`]
    terminal.out(
      [...lines, ...(openapi ? [`Version: ${info}`] : [])]
        .map((line) => `${printable(line)}\n`)
        .join(''),
    )
  }
  if (result.status !== 'ok')
    throw new CommandError('failure', 'The server cannot write; its log says why. Reading goes on.')
}

/** `svc metrics` */
export async function runMetrics({ client, terminal }: Work): Promise<void> {
  const text = await client.text({ method: 'GET', path: '/metrics' }, 'text/plain')
  terminal.out(text)
}

async function describeServer(client: Work['client']) {
  const body = await client.json({ method: 'GET', path: '/openapi.json' })
  return { openapi: textAt(body, 'openapi'), info: textAt(body, 'info.version') }
}
