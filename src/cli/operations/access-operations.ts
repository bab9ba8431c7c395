import type { Json } from '#base/json.ts'
import { at, dateOf, showResult, textAt } from '../terminal/display.ts'
import type { ClientOperation, CommandInput, OptionRows, Work } from './operation.ts'

const limitOptions: OptionRows = {
  '--repository <name...>': 'the only repositories that it can see',
  '--ref <pattern...>': 'the only refs that it can push, such as refs/heads/agents/*',
  '--expires-in-days <days>': '1 to 3650, or never (default: 365)',
  '--expires-in-seconds <seconds>': 'in place of days, 60 or more',
}

const tokenName = ({ option }: CommandInput) => option('name') ?? 'command line'

export const accessOperations: ClientOperation[] = [
  {
    command: 'users me',
    operations: ['getCaller'],
    summary: 'show who you are for a server, and what your token may do',
    fields: {
      Username: (body) => textAt(at(body, 'credential'), 'username'),
      Name: (body) => textAt(at(body, 'user'), 'displayName'),
      Email: (body) => textAt(at(body, 'user'), 'email'),
      Groups: (body) => textAt(at(body, 'user'), 'groups'),
      Kind: (body) => textAt(at(body, 'credential'), 'kind'),
      Permissions: (body) => textAt(at(body, 'credential'), 'permissions'),
      Limits: (body) => toLimits(at(body, 'credential')),
      Expires: (body) => dateOf('expiresAt')(at(body, 'credential')),
    },
  },
  {
    command: 'users list',
    operations: ['listUsers'],
    isLocal: true,
    summary: 'list users, which takes an admin token',
    table: {
      USERNAME: 'username',
      NAME: 'displayName',
      EMAIL: 'email',
      CREATED: dateOf('createdAt'),
      'LAST SEEN': dateOf('lastSeenAt'),
      SOURCE: 'source',
      DISABLED: dateOf('disabledAt'),
      'WITHOUT RIGHTS SINCE': dateOf('loginEndedAt'),
    },
  },
  {
    command: 'users show',
    operations: ['getUser'],
    isLocal: true,
    summary: 'show a user: any with an admin token, otherwise your own',
    arguments: ['username'],
    fields: {
      Username: 'username',
      Name: 'displayName',
      Email: 'email',
      Created: dateOf('createdAt'),
      'Last seen': dateOf('lastSeenAt'),
      Source: 'source',
      Disabled: dateOf('disabledAt'),
      'Without rights since': dateOf('loginEndedAt'),
      Groups: 'groups',
      Login: (body) => toPerson(at(body, 'login')),
    },
  },
  {
    command: 'users update',
    operations: ['updateUser'],
    isLocal: true,
    summary: 'change the name, the e-mail address or the login of a user',
    arguments: ['username'],
    options: {
      '--display-name <name>': 'name of the person or program',
      '--email <email>': 'e-mail address',
      '--login-subject <sub>': 'person at the identity provider; empty for none',
    },
    sentence: (_, { argument }) => `The user ${argument('username')} is changed.`,
  },
  ...(['disable', 'enable'] as const).map(
    (command): ClientOperation => ({
      command: `users ${command}`,
      operations: ['updateUser'],
      isLocal: true,
      summary:
        command === 'disable'
          ? 'make all tokens, keys and sessions of a user invalid, until it is enabled again'
          : 'make the tokens, keys and sessions of a disabled user valid again',
      arguments: ['username'],
      fill: () => ({ disabled: command === 'disable' }),
      sentence: (_, { argument }) => `The user ${argument('username')} is ${command}d.`,
    }),
  ),
  {
    command: 'users delete',
    operations: ['deleteUser'],
    isLocal: true,
    summary: 'delete a user with its tokens, keys and sessions',
    arguments: ['username'],
    confirm: ({ argument }) => ({
      question: `This deletes the user ${argument('username')} with all of its tokens and keys. Type the username to continue: `,
      expected: argument('username'),
    }),
    sentence: (_, { argument }) => `The user ${argument('username')} is deleted.`,
    json: ({ argument }) => ({ username: argument('username'), deleted: true }),
  },
  {
    command: 'tokens create',
    operations: ['createToken'],
    isLocal: true,
    summary: 'create a token and print it',
    options: {
      '--name <name>': 'name of the token (default: command line)',
      '--permission <permission...>':
        'permissions, or read, write, maintain, ci or everything (default: repo:read repo:write)',
      '--username <username>':
        'user that the token acts as (default: its id; admin for admin tokens)',
      ...limitOptions,
    },
    fill: (input) => ({ name: tokenName(input), username: usernameOf(input) }),
    // The token alone goes to standard output, for pipes.
    sentence: (body) => textAt(body, 'token'),
  },
  {
    command: 'tokens delegate',
    operations: ['delegateToken'],
    summary: 'make a token with a part of the rights of yours, which ends with it, and print it',
    options: {
      '--name <name>': 'name of the token (default: command line)',
      '--permission <permission...>': 'some of yours (default: repo:read repo:write)',
      ...limitOptions,
    },
    fill: (input) => ({ name: tokenName(input) }),
    sentence: (body) => textAt(body, 'token'),
  },
  {
    command: 'tokens list',
    operations: ['listTokens', 'listDelegatedTokens'],
    choose: ({ flag }) => (flag('delegated') ? 'listDelegatedTokens' : 'listTokens'),
    isLocal: true,
    summary: 'list all tokens, which takes an admin token, or the delegated ones',
    options: {
      '--delegated': { description: 'those that were delegated from your token', only: 'server' },
    },
    table: {
      ID: 'id',
      NAME: 'name',
      USERNAME: 'username',
      EXPIRES: dateOf('expiresAt'),
      'LAST USED': dateOf('lastUsedAt'),
      PERMISSIONS: 'permissions',
      LIMITS: toLimits,
    },
  },
  {
    command: 'tokens revoke',
    operations: ['deleteToken', 'deleteDelegatedToken'],
    choose: ({ flag }) => (flag('delegated') ? 'deleteDelegatedToken' : 'deleteToken'),
    isLocal: true,
    summary: 'delete a token and those that were delegated from it',
    arguments: ['id'],
    options: {
      '--delegated': { description: 'a token that was delegated from yours', only: 'server' },
    },
    confirm: ({ argument }) => ({
      question: `This revokes the token ${argument('id')} for good. Type yes to continue: `,
      expected: 'yes',
    }),
    sentence: (_, { argument }) => `Token ${argument('id')} is revoked.`,
    json: ({ argument }) => ({ id: argument('id'), revoked: true }),
  },
  ...['keys add', 'keys-add'].map(
    (command): ClientOperation => ({
      command,
      operations: ['createSshKey'],
      isLocal: true,
      summary: 'add an SSH key: a .pub file, its content, or - for standard input',
      arguments: ['[key]'],
      options: {
        '--username <username>':
          'user that the key acts as (default: yours; admin in a data directory)',
        '--name <name>': "name of the key (default: the key's comment)",
        '--permission <permission...>':
          'permissions, or read or write (default: repo:read repo:write)',
        '--repository <name...>': 'the only repositories that it can see: a deploy key',
        '--expires-in-days <days>':
          '1 to 3650, or never (default: never, or as your token if it is of no login)',
      },
      run: runAddKey,
    }),
  ),
  {
    command: 'keys list',
    operations: ['listSshKeys'],
    isLocal: true,
    summary: 'list SSH keys: yours, or all of a data directory',
    options: { '--username <username>': 'those of this user, for admin tokens' },
    table: {
      ID: 'id',
      NAME: 'name',
      USERNAME: 'username',
      FINGERPRINT: 'fingerprint',
      EXPIRES: dateOf('expiresAt'),
      'LAST USED': dateOf('lastUsedAt'),
      PERMISSIONS: 'permissions',
      LIMITS: toLimits,
    },
  },
  {
    command: 'keys remove',
    operations: ['deleteSshKey'],
    isLocal: true,
    summary: 'delete an SSH key',
    arguments: ['id'],
    sentence: (_, { argument }) => `SSH key ${argument('id')} is removed.`,
    json: ({ argument }) => ({ id: argument('id'), removed: true }),
  },
  {
    command: 'trust-rules add',
    operations: ['createTrustRule'],
    summary: 'let jobs of a CI service exchange their tokens for tokens of your repository',
    options: {
      '--name <name>': 'name that the journal shows of its jobs',
      '--issuer <address>': 'issuer of their tokens, such as https://gitlab.com',
      '--audience <audience>':
        'the only audience of their tokens (default: the address of the server)',
      '--claim <name=pattern...>':
        'claims of their tokens, such as sub=repo:acme/site:ref:refs/heads/*',
      '--repository <name...>': 'the repositories that they can see',
      '--namespace <name>': 'a namespace: all of its repositories, or those of --repository',
      '--ref <pattern...>': 'the only refs that they can push, such as refs/heads/agents/*',
      '--permission <permission...>': 'what they can do (default: repo:read)',
    },
    fill: ({ list }) => ({ permissions: list('permission') ?? ['repo:read'] }),
    sentence: (body) => `Trust rule ${textAt(body, 'id')} is added.`,
  },
  {
    command: 'trust-rules list',
    operations: ['listTrustRules'],
    summary: 'list the trust rules that you created, or those of a repository or namespace',
    options: {
      '--repository <name>': 'those of this repository, which you own',
      '--namespace <name>': 'those of this namespace',
    },
    table: {
      ID: 'id',
      NAME: 'name',
      ISSUER: 'issuer',
      CLAIMS: toClaims,
      REPOSITORIES: coveredBy,
      PERMISSIONS: 'permissions',
      'IN FORCE': 'inForce',
      'LAST USED': dateOf('lastUsedAt'),
    },
  },
  {
    command: 'trust-rules show',
    operations: ['getTrustRule'],
    summary: 'show a trust rule, and why it last refused a token',
    arguments: ['id'],
    fields: {
      Name: 'name',
      'Created by': 'username',
      Issuer: 'issuer',
      Audience: 'audience',
      Claims: toClaims,
      Namespace: 'namespace',
      Repositories: coveredBy,
      Refs: 'refs',
      Permissions: 'permissions',
      'In force': 'inForce',
      Created: dateOf('createdAt'),
      'Last used': dateOf('lastUsedAt'),
      'Last refused': dateOf('lastRefusedAt'),
      Refusal: 'lastRefusal',
    },
  },
  {
    command: 'trust-rules delete',
    operations: ['deleteTrustRule'],
    summary: 'delete a trust rule, with the tokens that were exchanged by it',
    arguments: ['id'],
    sentence: (_, { argument }) => `Trust rule ${argument('id')} is deleted.`,
    json: ({ argument }) => ({ id: argument('id'), deleted: true }),
  },
]

// As in a data directory: an admin token without a username acts as admin.
function usernameOf({ option, list }: CommandInput): string | undefined {
  return option('username') ?? (list('permission')?.includes('admin') ? 'admin' : undefined)
}

function toClaims(rule: Json): string {
  return Object.entries(Object(at(rule, 'claims')))
    .map(([name, pattern]) => `${name}=${pattern}`)
    .join(' ')
}

function coveredBy(rule: Json): string {
  if (at(rule, 'repositories') !== null) return textAt(rule, 'repositories')
  return `all${at(rule, 'namespace') === null ? '' : ` in ${textAt(rule, 'namespace')}`}`
}

function toPerson(login: Json): string {
  return login === null ? '' : `${textAt(login, 'subject')} at ${textAt(login, 'issuer')}`
}

function toLimits(token: Json): string {
  const [repositories, refs] = [at(token, 'repositories'), at(token, 'refs')]
  const from = at(token, 'delegatedFrom')
  return [
    ...(repositories === null
      ? []
      : [`repositories ${textAt(token, 'repositories') || '(deleted)'}`]),
    ...(refs === null ? [] : [`refs ${textAt(token, 'refs')}`]),
    ...(from === null ? [] : [`delegated from ${textAt(token, 'delegatedFrom')}`]),
  ].join(', ')
}

/** `svc keys add` and `svc keys-add` */
async function runAddKey(work: Work): Promise<void> {
  const { readKey } = await import('../terminal/given-values.ts')
  const { client, input, terminal } = work
  const publicKey = (await readKey(input.argument('key') || undefined, terminal)).trim()
  const name = input.option('name') ?? commentOf(publicKey)
  const body = await client.json(work.request({ publicKey, name }))
  const [fingerprint, username] = [textAt(body, 'fingerprint'), textAt(body, 'username')]
  const end =
    at(body, 'expiresAt') === null ? '' : ` It is valid until ${dateOf('expiresAt')(body)}.`
  showResult(work, body, `Added ${fingerprint} for ${username}, id ${textAt(body, 'id')}.${end}`)
}

/** The comment of a key, as far as it can be a name. */
function commentOf(publicKey: string): string {
  const [, comment = ''] = /^\S+\s+\S+\s+([^\r\n]+)/.exec(publicKey) ?? []
  return comment.trim().slice(0, 100) || 'command line'
}
