import type { Json } from '#base/json.ts'
import { at, dateOf, textAt } from '../display.ts'
import { path } from '../http-client.ts'
import type { Cell, ClientOperation, CommandInput, OptionRow, Work } from '../operation.ts'
import { showResult } from '../show-result.ts'
import { daysOf, secondsOf } from './option-values.ts'

const limitOptions: OptionRow[] = [
  { flags: '--repository <name...>', description: 'the only repositories that it can see' },
  {
    flags: '--ref <pattern...>',
    description: 'the only refs that it can push, such as refs/heads/agents/*',
  },
  {
    flags: '--expires-in-days <days>',
    description: '1 to 3650, or never (default: 365)',
  },
  { flags: '--expires-in-seconds <seconds>', description: 'in place of days, 60 or more' },
]

const tokenColumns: Record<string, Cell> = {
  ID: 'id',
  NAME: 'name',
  USERNAME: 'username',
  EXPIRES: dateOf('expiresAt'),
  'LAST USED': dateOf('lastUsedAt'),
  PERMISSIONS: 'permissions',
  LIMITS: toLimits,
}

export const accessOperations: ClientOperation[] = [
  {
    command: 'tokens create',
    operations: ['createToken'],
    summary: 'create a token and print it',
    options: [
      { flags: '--name <name>', description: 'name of the token (default: command line)' },
      {
        flags: '--permission <permission...>',
        description: 'permissions (default: repo:read repo:write)',
      },
      {
        flags: '--username <username>',
        description: 'user that the token acts as (default: its id; admin for admin tokens)',
      },
      ...limitOptions,
    ],
    request: (input) => ({
      method: 'POST',
      path: '/tokens',
      body: { ...tokenBody(input), username: usernameOf(input) },
    }),
    // The token alone goes to standard output, for pipes.
    show: { kind: 'sentence', text: (body) => textAt(body, 'token') },
  },
  {
    command: 'tokens delegate',
    operations: ['delegateToken'],
    summary: 'make a token with a part of the rights of yours, which ends with it, and print it',
    options: [
      { flags: '--name <name>', description: 'name of the token (default: command line)' },
      {
        flags: '--permission <permission...>',
        description: 'some of yours (default: repo:read repo:write)',
      },
      ...limitOptions,
    ],
    request: (input) => ({ method: 'POST', path: '/tokens/delegate', body: tokenBody(input) }),
    show: { kind: 'sentence', text: (body) => textAt(body, 'token') },
  },
  {
    command: 'tokens list',
    operations: ['listTokens', 'listDelegatedTokens'],
    summary: 'list all tokens, which takes an admin token, or the delegated ones',
    options: [
      {
        flags: '--delegated',
        description: 'those that were delegated from your token',
        only: 'server',
      },
    ],
    request: ({ flag }) => ({
      method: 'GET',
      path: flag('delegated') ? '/tokens/delegated' : '/tokens',
    }),
    show: { kind: 'table', isPaged: true, columns: tokenColumns },
  },
  {
    command: 'tokens revoke',
    operations: ['deleteToken', 'deleteDelegatedToken'],
    summary: 'delete a token and those that were delegated from it',
    arguments: ['id'],
    options: [
      {
        flags: '--delegated',
        description: 'a token that was delegated from yours',
        only: 'server',
      },
    ],
    confirm: ({ argument }) => ({
      question: `This revokes the token ${argument('id')} for good. Type yes to continue: `,
      expected: 'yes',
    }),
    request: ({ argument, flag }) => ({
      method: 'DELETE',
      path: flag('delegated')
        ? path`/tokens/delegated/${argument('id')}`
        : path`/tokens/${argument('id')}`,
    }),
    show: {
      kind: 'sentence',
      text: (_, { argument }) => `Token ${argument('id')} is revoked.`,
      json: ({ argument }) => ({ id: argument('id'), revoked: true }),
    },
  },
  ...['keys add', 'keys-add'].map(
    (command): ClientOperation => ({
      command,
      operations: ['createSshKey'],
      summary: 'add an SSH key: a .pub file, its content, or - for standard input',
      arguments: ['[key]'],
      options: [
        {
          flags: '--username <username>',
          description: 'user that the key acts as (default: yours; admin in a data directory)',
        },
        { flags: '--name <name>', description: "name of the key (default: the key's comment)" },
        {
          flags: '--permission <permission...>',
          description: 'permissions (default: repo:read repo:write)',
        },
        {
          flags: '--expires-in-days <days>',
          description: '1 to 3650, or never (default: never)',
        },
      ],
      run: runAddKey,
    }),
  ),
  {
    command: 'keys list',
    operations: ['listSshKeys'],
    summary: 'list SSH keys: yours, or all of a data directory',
    options: [
      { flags: '--username <username>', description: 'those of this user, for admin tokens' },
    ],
    request: ({ option }) => ({
      method: 'GET',
      path: '/keys',
      query: { username: option('username') },
    }),
    show: {
      kind: 'table',
      isPaged: true,
      columns: {
        ID: 'id',
        NAME: 'name',
        USERNAME: 'username',
        FINGERPRINT: 'fingerprint',
        EXPIRES: dateOf('expiresAt'),
        'LAST USED': dateOf('lastUsedAt'),
        PERMISSIONS: 'permissions',
      },
    },
  },
  {
    command: 'keys remove',
    operations: ['deleteSshKey'],
    summary: 'delete an SSH key',
    arguments: ['id'],
    request: ({ argument }) => ({ method: 'DELETE', path: path`/keys/${argument('id')}` }),
    show: {
      kind: 'sentence',
      text: (_, { argument }) => `SSH key ${argument('id')} is removed.`,
      json: ({ argument }) => ({ id: argument('id'), removed: true }),
    },
  },
]

function tokenBody({ option, list }: CommandInput) {
  return {
    name: option('name') ?? 'command line',
    permissions: list('permission'),
    expiresInDays: daysOf(option('expiresInDays')),
    expiresInSeconds: secondsOf(option('expiresInSeconds')),
    repositories: list('repository'),
    refs: list('ref'),
  }
}

// As in a data directory: an admin token without a username acts as admin.
function usernameOf({ option, list }: CommandInput): string | undefined {
  return option('username') ?? (list('permission')?.includes('admin') ? 'admin' : undefined)
}

function toLimits(token: Json): string {
  const [repositories, refs] = [at(token, 'repositories'), at(token, 'refs')]
  const from = at(token, 'delegatedFrom')
  return [
    ...(repositories === null ? [] : [`repositories ${textAt(token, 'repositories')}`]),
    ...(refs === null ? [] : [`refs ${textAt(token, 'refs')}`]),
    ...(from === null ? [] : [`delegated from ${textAt(token, 'delegatedFrom')}`]),
  ].join(', ')
}

/** `svc keys add` and `svc keys-add` */
async function runAddKey(work: Work): Promise<void> {
  const { readKey } = await import('../../commands/read-key.ts')
  const { client, input, terminal } = work
  const publicKey = (await readKey(input.argument('key') || undefined, terminal)).trim()
  const body = await client.json({
    method: 'POST',
    path: '/keys',
    body: {
      publicKey,
      name: input.option('name') ?? commentOf(publicKey),
      username: input.option('username'),
      permissions: input.list('permission'),
      expiresInDays: daysOf(input.option('expiresInDays')),
    },
  })
  const [fingerprint, username] = [textAt(body, 'fingerprint'), textAt(body, 'username')]
  showResult(work, body, `Added ${fingerprint} for ${username}, id ${textAt(body, 'id')}.`)
}

/** The comment of a key, as far as it can be a name. */
function commentOf(publicKey: string): string {
  const [, comment = ''] = /^\S+\s+\S+\s+([^\r\n]+)/.exec(publicKey) ?? []
  return comment.trim().slice(0, 100) || 'command line'
}
