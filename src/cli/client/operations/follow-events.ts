import { printable, toDate } from '#base/format.ts'
import type { Json } from '#base/json.ts'
import { toSafeJson } from '#base/safe-text.ts'
import { at, textAt } from '../display.ts'
import { followEvents } from '../event-stream-client.ts'
import { type ApiRequest, notSvc } from '../http-client.ts'
import type { Work } from '../operation.ts'
import { limitOf, wholeOf } from './option-values.ts'

const defaultLimit = 100

/** `svc events` */
export async function runEvents(work: Work): Promise<void> {
  const { client, input, terminal, json } = work
  const { option, list, flag } = input
  const request = {
    method: 'GET',
    path: '/events',
    query: {
      after: wholeOf(option('after'), '--after'),
      repository: option('repository'),
      kind: list('kind')?.join(','),
    },
  }
  if (!flag('follow')) return listEvents(work, request)
  const endless = () => false
  const following = { ...request, query: { ...request.query, follow: true } }
  for await (const { data } of followEvents(client, following, endless)) {
    if (data === '') continue
    const event = parse(data, client.url)
    terminal.out(json ? toSafeJson(event, 0) : toLine(event))
  }
}

/** A program gets the oldest events first, a person the newest ones, unless options say where to start. */
async function listEvents(
  { client, input: { option }, terminal, columns, json }: Work,
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
