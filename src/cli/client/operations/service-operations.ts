import { printable } from '#base/format.ts'
import { toSafeJson } from '#base/safe-text.ts'
import { secretUsage } from '../../commands/help-texts.ts'
import { CommandError } from '../command-error.ts'
import { at, dateOf, textAt } from '../display.ts'
import { path } from '../http-client.ts'
import type { ClientOperation, Work } from '../operation.ts'
import { showResult } from '../show-result.ts'
import { runEvents } from './follow-events.ts'

export const serviceOperations: ClientOperation[] = [
  {
    command: 'secrets list',
    operations: ['listSecrets'],
    summary: 'list the secrets of a repository, without their values',
    arguments: ['repository'],
    request: ({ argument }) => ({
      method: 'GET',
      path: path`/repos/${argument('repository')}/secrets`,
    }),
    show: {
      kind: 'table',
      isPaged: true,
      columns: { NAME: 'name', CREATED: dateOf('createdAt'), UPDATED: dateOf('updatedAt') },
    },
  },
  {
    command: 'secrets set',
    operations: ['putSecret'],
    summary: 'create or replace a secret; the value is read from standard input or a prompt',
    arguments: ['repository', 'name'],
    // An excess argument may be the value.
    usageError: secretUsage,
    run: runSetSecret,
  },
  {
    command: 'secrets delete',
    operations: ['deleteSecret'],
    summary: 'delete a secret',
    arguments: ['repository', 'name'],
    confirm: ({ argument }) => ({
      question: `This deletes the secret ${argument('name')} for good. Type yes to continue: `,
      expected: 'yes',
    }),
    request: ({ argument }) => ({
      method: 'DELETE',
      path: path`/repos/${argument('repository')}/secrets/${argument('name')}`,
    }),
    show: {
      kind: 'sentence',
      text: (_, { argument }) => `Deleted the secret ${argument('name')}.`,
      json: ({ argument }) => ({ name: argument('name'), deleted: true }),
    },
  },
  {
    command: 'events',
    operations: ['listEvents'],
    summary: 'list the events of the server: oldest first, on a terminal newest first',
    options: [
      { flags: '--follow', description: 'print new events as they happen' },
      { flags: '--after <number>', description: 'start after this sequence number' },
      {
        flags: '--before <number>',
        description: 'the newest first, before this sequence number or latest',
      },
      { flags: '--limit <number>', description: 'at most this many (default: 100)' },
      { flags: '--repository <name>', description: 'only those of this repository' },
      { flags: '--kind <kind...>', description: 'only these kinds, such as push' },
    ],
    notes:
      '\nWith --follow and --json, each event is one line of JSON. A connection that\nbreaks is opened again, without missing an event.\n',
    run: runEvents,
  },
  {
    command: 'health',
    operations: ['getHealth', 'getOpenApi'],
    summary: 'show whether the server is healthy, and its version',
    run: runHealth,
  },
  {
    command: 'metrics',
    operations: ['getMetrics'],
    summary: 'print the metrics of the server in the Prometheus text format',
    run: runMetrics,
  },
]

/** `svc health`. Fails unless the server can write, so that scripts need not read the status. */
async function runHealth({ client, json, terminal }: Work): Promise<void> {
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
async function runMetrics({ client, terminal }: Work): Promise<void> {
  const text = await client.text({ method: 'GET', path: '/metrics' }, 'text/plain')
  terminal.out(text)
}

async function describeServer(client: Work['client']) {
  const body = await client.json({ method: 'GET', path: '/openapi.json' })
  return { openapi: textAt(body, 'openapi'), info: textAt(body, 'info.version') }
}

/** `svc secrets set` */
async function runSetSecret(work: Work): Promise<void> {
  const { readValue } = await import('../../commands/read-value.ts')
  const { client, input, terminal } = work
  const name = input.argument('name')
  const value = await readValue(name, terminal)
  const body = await client.json({
    method: 'PUT',
    path: path`/repos/${input.argument('repository')}/secrets/${name}`,
    body: { value: value.reveal() },
  })
  showResult(work, body, String(at(body, 'message') ?? `Saved ${name}.`))
}
