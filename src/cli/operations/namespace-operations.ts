import { toSize } from '#base/format.ts'
import type { Json } from '#base/json.ts'
import { size } from '#config/setting-values.ts'
import { UsageError } from '../terminal/command-errors.ts'
import { at, dateOf, listAt, textAt } from '../terminal/display.ts'
import type { ClientOperation } from './operation.ts'
import { wholeOf } from './operation-request.ts'

export const namespaceOperations: ClientOperation[] = [
  {
    command: 'namespaces list',
    operations: ['listNamespaces'],
    isLocal: true,
    summary: 'list the namespaces that you can see, with your role',
    table: { NAME: 'name', ROLE: 'role', CREATED: dateOf('createdAt') },
  },
  {
    command: 'namespaces create',
    operations: ['createNamespace'],
    isLocal: true,
    summary: 'create a namespace, for repositories such as acme/site',
    arguments: ['name'],
    sentence: (body) => `Created the namespace ${textAt(body, 'name')}.`,
  },
  {
    command: 'namespaces show',
    operations: ['getNamespace'],
    isLocal: true,
    summary: 'show a namespace',
    arguments: ['namespace'],
    fields: {
      Name: 'name',
      'Your role': 'role',
      'Most repositories': 'maxRepositories',
      'Most bytes': 'maxBytes',
      Created: dateOf('createdAt'),
      Id: 'id',
    },
  },
  {
    command: 'namespaces limit',
    operations: ['updateNamespace'],
    isLocal: true,
    summary: 'limit what the repositories of a namespace may take',
    arguments: ['namespace'],
    options: {
      '--max-repositories <number>': 'most repositories, or none for no limit',
      '--max-bytes <size>': 'most bytes of packs and Git LFS objects, such as 10GiB, or none',
    },
    fill: ({ option }) => ({
      maxRepositories: limitOf(option('maxRepositories'), (text) =>
        wholeOf(text, '--max-repositories', ' or none'),
      ),
      maxBytes: limitOf(option('maxBytes'), bytesOf),
    }),
    sentence: (body) => `${textAt(body, 'name')} may have ${limitsIn(body)}.`,
  },
  {
    command: 'namespaces usage',
    operations: ['getNamespaceUsage'],
    isLocal: true,
    summary: 'show what the repositories of a namespace take, and its days in UTC',
    arguments: ['namespace'],
    options: {
      '--since <time>': 'only days from then on (default: the last 30 days)',
      '--until <time>': 'only days up to then',
    },
    table: {
      DAY: 'day',
      PUSHES: 'pushes',
      FETCHES: 'fetches',
      RECEIVED: sizeAt('receivedBytes'),
      SENT: sizeAt('sentBytes'),
      'RUN MINUTES': 'runMinutes',
    },
    rows: (body) => listAt(body, 'days'),
    note: (body) => `It has ${usedIn(body)}.`,
  },
  {
    command: 'namespaces rename',
    operations: ['updateNamespace'],
    isLocal: true,
    summary: 'rename a namespace with its repositories; their old addresses lead to them',
    arguments: ['namespace', 'name'],
    sentence: (body) => `Renamed to ${textAt(body, 'name')}.`,
  },
  {
    command: 'namespaces delete',
    operations: ['deleteNamespace'],
    isLocal: true,
    summary: 'delete a namespace without repositories',
    arguments: ['namespace'],
    sentence: (_, { argument }) => `Deleted the namespace ${argument('namespace')}.`,
    json: ({ argument }) => ({ name: argument('namespace'), deleted: true }),
  },
  {
    command: 'namespaces members list',
    operations: ['listNamespaceMembers'],
    isLocal: true,
    summary: 'list the members of a namespace',
    arguments: ['namespace'],
    table: { MEMBER: 'member', ROLE: 'role', ADDED: dateOf('createdAt') },
    note: unknownIn,
  },
  {
    command: 'namespaces members add',
    operations: ['setNamespaceMember'],
    isLocal: true,
    summary: 'add a user, or a group as group:NAME, to a namespace, or change the role',
    arguments: ['namespace', 'member'],
    options: { '--role <role>': 'its role in all repositories of the namespace (default: write)' },
    fill: ({ option }) => ({ role: option('role') ?? 'write' }),
    sentence: (body) => {
      const note = unknownAt(body)
      return `${textAt(body, 'member')} has the role ${textAt(body, 'role')}${note && `; ${note}`}.`
    },
  },
  {
    command: 'namespaces members remove',
    operations: ['removeNamespaceMember'],
    isLocal: true,
    summary: 'remove a user or a group from a namespace',
    arguments: ['namespace', 'member'],
    sentence: (_, { argument }) => `Removed ${argument('member')}.`,
    json: ({ argument }) => ({ member: argument('member'), removed: true }),
  },
]

/** That svc has never seen a member. */
function unknownAt(row: Json): string {
  if (at(row, 'unknown') !== true) return ''
  return textAt(row, 'member').startsWith('group:')
    ? 'no user who has logged in is in this group yet'
    : 'no token or key has this username yet'
}

function unknownIn(members: Json): string | undefined {
  const unknown = listAt({ members }, 'members').filter((row) => at(row, 'unknown') === true)
  const names = unknown.map((row) => textAt(row, 'member')).join(', ')
  return names === '' ? undefined : `No token, key or login has these yet: ${names}.`
}

const bytes = size(0, 2 ** 50)

/** The value of an option with a limit: null for `none`. */
function limitOf(text: string | undefined, parse: (text: string) => number | undefined) {
  return text === 'none' ? null : text && parse(text)
}

function bytesOf(text: string): number {
  const parsed = bytes.parse(text)
  if (parsed !== undefined) return parsed
  throw new UsageError(`--max-bytes takes ${bytes.accepts}, or none; not "${text}".`)
}

function sizeAt(path: string): (row: Json) => string {
  return (row) => toSize(Number(at(row, path)))
}

function limitsIn(body: Json): string {
  const [repositories, bytes] = [at(body, 'maxRepositories'), at(body, 'maxBytes')]
  const most = repositories === null ? 'any number of' : `at most ${repositories}`
  return `${most} repositories and ${bytes === null ? 'any size' : `at most ${toSize(Number(bytes))}`}`
}

function usedIn(body: Json): string {
  const [most, mostBytes] = [at(body, 'maxRepositories'), at(body, 'maxBytes')]
  const repositories = `${textAt(body, 'repositories')}${most === null ? '' : ` of at most ${most}`} repositories`
  const size = toSize(Number(at(body, 'bytes')))
  return `${repositories} and ${size}${mostBytes === null ? '' : ` of at most ${toSize(Number(mostBytes))}`}`
}
