import { printable, toDate } from '#base/format.ts'
import type { Json } from '#base/json.ts'
import { toSafeJson } from '#base/safe-text.ts'
import { followEvents } from '../servers/event-stream-client.ts'
import { type ApiRequest, notSvc } from '../servers/http-client.ts'
import { CommandError } from '../terminal/command-errors.ts'
import { at, dateOf, showResult, textAt } from '../terminal/display.ts'
import type { ClientOperation, ServerWork, Work } from './operation.ts'
import { limitOf, orNamespace, wholeOf } from './operation-request.ts'

/** Secrets, and what is about the whole server. */
export const serviceOperations: ClientOperation[] = [
  orNamespace({
    command: 'secrets list',
    operations: ['listSecrets'],
    isLocal: true,
    summary: 'list the secrets of a repository or namespace, without their values',
    arguments: ['repository'],
    table: { NAME: 'name', CREATED: dateOf('createdAt'), UPDATED: dateOf('updatedAt') },
  }),
  orNamespace({
    command: 'secrets set',
    operations: ['putSecret'],
    isLocal: true,
    summary: 'create or replace a secret; the value is read from standard input or a prompt',
    arguments: ['repository', 'name'],
    // An excess argument may be the value.
    usageError:
      'this takes a repository or --namespace, a name, and optionally --json; the value is read from standard input',
    run: runSetSecret,
  }),
  orNamespace({
    command: 'secrets delete',
    operations: ['deleteSecret'],
    isLocal: true,
    summary: 'delete a secret',
    arguments: ['repository', 'name'],
    confirm: ({ argument }) => ({
      question: `This deletes the secret ${argument('name')} for good. Type yes to continue: `,
      expected: 'yes',
    }),
    sentence: (_, { argument }) => `Deleted the secret ${argument('name')}.`,
    json: ({ argument }) => ({ name: argument('name'), deleted: true }),
  }),
  {
    command: 'events',
    operations: ['listEvents'],
    summary: 'list the events of the server: oldest first, on a terminal newest first',
    options: {
      '--follow': 'print new events as they happen',
      '--after <number>': 'start after this sequence number',
      '--before <number>': 'the newest first, before this sequence number or latest',
      '--limit <number>': 'at most this many (default: 100)',
      '--repository <name>': 'only those of this repository',
      '--kind <kind...>': 'only these kinds, such as push',
    },
    notes:
      '\nWith --follow and --json, each event is one line of JSON. A connection that\nbreaks is opened again, without missing an event.\n',
    runOnServer: runEvents,
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
    runOnServer: runMetrics,
  },
  {
    command: 'audit',
    operations: ['listAuditEntries'],
    isLocal: true,
    summary: 'list who changed what, from where; newest first',
    options: {
      '--username <name>': 'only changes by this user',
      '--credential <id>': 'only with this token or key; local for commands',
      '--action <action...>': 'only these, such as token.created',
      '--repository <name>': 'only changes of this repository',
      '--repository-id <id>': 'the same, also for one that is gone',
      '--via <origin>': 'only changes made in this way',
      '--address <address>': 'only from this IP address',
      '--since <time>': 'only from then on, such as 2026-11-24T08:00Z',
      '--until <time>': 'only up to then',
      '--limit <number>': 'at most this many (default: 30)',
    },
    table: {
      NUMBER: 'seq',
      TIME: dateOf('createdAt'),
      USER: 'actor.username',
      VIA: 'via',
      ADDRESS: 'address',
      ACTION: 'action',
      REPOSITORY: 'repoName',
      DETAILS: (row) => toDetails(at(row, 'data')),
    },
  },
  {
    command: 'check',
    operations: ['checkAccess'],
    summary: 'check whether a push or a request would be allowed, without performing it',
    arguments: ['repository', 'action', '[ref]'],
    options: {
      '--change <change>': {
        description: 'how the ref would change (default: update)',
        choices: ['update', 'force', 'delete'],
      },
      '--commit <id>': 'commit that it would point to (default: a new one)',
      '--username <name>': 'ask for another user',
      '--token-id <id>': 'ask for a token',
    },
    notes:
      '\n  svc check push main\n  svc check deleteRepository --username ada\n\nThe exit code is 1 if it would be refused.\n',
    run: runCheck,
  },
]

/** `svc health`. Fails unless the server can write, so that scripts need not read the status. */
async function runHealth({ client, request, json, terminal }: Work): Promise<void> {
  const body = await client.json(request())
  const description = await client.json(request({}, 'getOpenApi'))
  const [openapi, info] = [textAt(description, 'openapi'), textAt(description, 'info.version')]
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
async function runMetrics({ client, request, terminal }: ServerWork): Promise<void> {
  terminal.out(await client.text(request(), 'text/plain'))
}

/** `svc secrets set` */
async function runSetSecret(work: Work): Promise<void> {
  const { readValue } = await import('../terminal/given-values.ts')
  const { client, input, terminal } = work
  const name = input.argument('name')
  const value = await readValue(name, terminal)
  const body = await client.json(work.request({ value: value.reveal() }))
  showResult(work, body, String(at(body, 'message') ?? `Saved ${name}.`))
}

async function runCheck(work: Work): Promise<number> {
  const { client, input } = work
  const { argument, option } = input
  const ref = argument('ref')
  const refs =
    ref === '' ? undefined : [{ ref, change: option('change'), commit: option('commit') }]
  const body = await client.json(work.request({ refs }))
  const isAllowed = at(body, 'allowed') === true
  const text = isAllowed ? 'Allowed.' : `Refused: ${textAt(body, 'detail')}`
  showResult(work, body, text)
  return isAllowed ? 0 : 1
}

function toDetails(data: Json): string {
  return Object.entries(Object(data))
    .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(' ')
}

const defaultLimit = 100

/** `svc events` */
async function runEvents(work: ServerWork): Promise<void> {
  const { client, input, terminal, json } = work
  const after = wholeOf(input.option('after'), '--after')
  const request = work.request({ after, before: undefined, limit: undefined })
  if (!input.flag('follow')) return listEvents(work, request)
  const endless = () => false
  for await (const { data } of followEvents(client, request, endless)) {
    if (data === '') continue
    const event = parse(data, client.url)
    terminal.out(json ? toSafeJson(event, 0) : toLine(event))
  }
}

/** A program gets the oldest events first, a person the newest ones, unless options say where to start. */
async function listEvents(
  { client, input: { option }, terminal, columns, json }: ServerWork,
  request: ApiRequest,
): Promise<void> {
  const limit = limitOf(option('limit'), defaultLimit)
  const isForPerson = columns !== undefined && !json
  const before =
    option('before') ?? (isForPerson && option('after') === undefined ? 'latest' : undefined)
  const parameter = before === undefined ? 'after' : 'before'
  const query = { ...request.query, before }
  // One more shows whether the list goes on.
  const rows = await client.list({ ...request, query }, limit + 1, parameter)
  const events = rows.slice(0, limit)
  terminal.out(json ? toSafeJson(events) : events.map(toLine).join(''))
  if (rows.length <= limit || json) return
  const last = printable(textAt(events.at(-1) ?? null, 'seq'))
  terminal.err(
    `There are ${before === undefined ? 'newer' : 'older'} events: --${parameter} ${last}\n`,
  )
}

function parse(data: string, url: string): Json {
  try {
    return JSON.parse(data)
  } catch {
    throw notSvc(url)
  }
}

function toLine(event: Json): string {
  const time = at(event, 'createdAt')
  const cells = [
    textAt(event, 'seq'),
    typeof time === 'number' && Math.abs(time) < 8.64e15 ? toDate(time) : '',
    textAt(event, 'kind'),
    textAt(event, 'repoName') || '-',
    textAt(event, 'actor.username'),
    detailOf(event),
  ]
  return `${printable(cells.join('  ').trimEnd())}\n`
}

/** The property of the event that says most. */
function detailOf(event: Json): string {
  const names = ['ref', 'conclusion', 'action', 'name', 'username', 'branch', 'tag', 'description']
  const [found = ''] = names.map((name) => textAt(event, `data.${name}`)).filter(Boolean)
  return found
}
