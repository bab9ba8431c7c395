import type { Json } from '#base/json.ts'
import { at, dateOf, textAt } from '../display.ts'
import { path } from '../http-client.ts'
import type { ClientOperation, Work } from '../operation.ts'
import { showResult } from '../show-result.ts'
import { timeOf } from './option-values.ts'

export const auditOperations: ClientOperation[] = [
  {
    command: 'audit',
    operations: ['listAuditEntries'],
    summary: 'list who changed what, from where; newest first',
    options: [
      { flags: '--username <name>', description: 'only changes by this user' },
      {
        flags: '--credential <id>',
        description: 'only with this token or key; local for commands',
      },
      { flags: '--action <action...>', description: 'only these, such as token.created' },
      { flags: '--repository <name>', description: 'only changes of this repository' },
      { flags: '--repository-id <id>', description: 'the same, also for one that is gone' },
      {
        flags: '--via <origin>',
        description: 'only changes made in this way',
        choices: ['api', 'http', 'ssh', 'cli', 'server'],
      },
      { flags: '--address <address>', description: 'only from this IP address' },
      { flags: '--since <time>', description: 'only from then on, such as 2026-11-24T08:00Z' },
      { flags: '--until <time>', description: 'only up to then' },
      { flags: '--limit <number>', description: 'at most this many (default: 30)' },
    ],
    request: ({ option, list }) => ({
      method: 'GET',
      path: '/audit',
      query: {
        username: option('username'),
        credential: option('credential'),
        action: list('action')?.join(','),
        repository: option('repository'),
        repositoryId: option('repositoryId'),
        via: option('via'),
        address: option('address'),
        since: timeOf(option('since'), '--since'),
        until: timeOf(option('until'), '--until'),
      },
    }),
    show: {
      kind: 'table',
      isPaged: true,
      columns: {
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
  },
  {
    command: 'check',
    operations: ['checkAccess'],
    summary: 'check what a push or a request would be answered, without doing it',
    arguments: ['repository', 'action', '[ref]'],
    options: [
      {
        flags: '--change <change>',
        description: 'how the ref would change (default: update)',
        choices: ['update', 'force', 'delete'],
      },
      { flags: '--commit <id>', description: 'commit that it would point to (default: a new one)' },
      { flags: '--username <name>', description: 'ask for another user' },
      { flags: '--token-id <id>', description: 'ask for a token' },
    ],
    notes:
      '\n  svc check push main\n  svc check deleteRepository --username ada\n\nThe exit code is 1 if it would be refused.\n',
    run: runCheck,
  },
]

async function runCheck(work: Work): Promise<number> {
  const { client, input } = work
  const { argument, option } = input
  const ref = argument('ref')
  const refs =
    ref === '' ? undefined : [{ ref, change: option('change'), commit: option('commit') }]
  const body = await client.json({
    method: 'POST',
    path: path`/repos/${argument('repository')}/check`,
    body: {
      action: argument('action'),
      refs,
      username: option('username'),
      tokenId: option('tokenId'),
    },
  })
  const isAllowed = at(body, 'allowed') === true
  const text = isAllowed ? 'Allowed.' : `Refused: ${textAt(body, 'detail')}`
  showResult(work, body, text)
  return isAllowed ? 0 : 1
}

function toDetails(data: Json): string {
  if (data === null || typeof data !== 'object') return ''
  return Object.entries(data)
    .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(' ')
}
