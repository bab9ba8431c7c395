import { printable, toDate } from '../../base/format.ts'
import type { Json } from '../../base/json.ts'
import { toSafeJson } from '../../base/safe-text.ts'
import { at, textAt } from '../display.ts'
import { followEvents } from '../event-stream-client.ts'
import { notSvc } from '../http-client.ts'
import type { Work } from '../operation.ts'
import { wholeOf } from './option-values.ts'

const defaultLimit = 100

/** `svc events` */
export async function runEvents({ client, input, terminal, json }: Work): Promise<void> {
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
  if (!flag('follow')) {
    const limit = wholeOf(option('limit'), '--limit') ?? defaultLimit
    const query = { ...request.query, before: option('before'), limit }
    const rows = await client.json({ ...request, query })
    const events = Array.isArray(rows) ? rows : []
    return terminal.out(json ? toSafeJson(events) : events.map(toLine).join(''))
  }
  const endless = () => false
  const following = { ...request, query: { ...request.query, follow: true } }
  for await (const { data } of followEvents(client, following, endless)) {
    if (data === '') continue
    const event = parse(data, client.url)
    terminal.out(json ? toSafeJson(event, 0) : toLine(event))
  }
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
