import { isGitAddress } from '#base/git-address.ts'
import type { Json } from '#base/json.ts'
import { UsageError } from '../../commands/usage-error.ts'
import { isSshAddress, repositoryOf } from '../clone-remotes.ts'
import { CommandError } from '../command-error.ts'
import { helperSettings, setCredentialHelper } from '../credential-settings.ts'
import { at, dateOf, textAt } from '../display.ts'
import { path } from '../http-client.ts'
import type { Cell, ClientOperation, Work } from '../operation.ts'
import { showResult } from '../show-result.ts'
import { runImport } from './import-repository.ts'

const repositoryFields: Record<string, Cell> = {
  Name: 'name',
  Description: 'description',
  Owner: 'ownerUsername',
  'Default branch': 'defaultBranch',
  Protected: 'protectedBranches',
  State: 'state',
  'Leak guard': (row) => (at(row, 'leakGuard') === false ? 'off' : 'on'),
  'Run tokens': 'runTokens',
  Created: dateOf('createdAt'),
  Pushed: dateOf('pushedAt'),
  'Size in bytes': 'sizeBytes',
  HTTP: 'cloneUrls.http',
  SSH: 'cloneUrls.ssh',
  Id: 'id',
}

const repositoryPath = ({ argument }: { argument: (name: string) => string }) =>
  path`/repos/${argument('repository')}`

const switchOf = (text: string | undefined) => (text === undefined ? undefined : text === 'on')

const sumOf = (counts: Json | undefined) =>
  Array.isArray(counts) ? String(counts.reduce<number>((sum, count) => sum + Number(count), 0)) : ''

function lastRunOf(runs: Json | undefined): string {
  const last = Array.isArray(runs) ? runs.at(-1) : undefined
  return last === undefined ? '' : textAt(last, 'conclusion') || textAt(last, 'status')
}

export const repositoryOperations: ClientOperation[] = [
  {
    command: 'repos list',
    operations: ['listRepositories'],
    summary: 'list repositories',
    request: () => ({ method: 'GET', path: '/repos' }),
    show: {
      kind: 'table',
      isPaged: true,
      columns: {
        NAME: 'name',
        CREATED: dateOf('createdAt'),
        PROTECTED: 'protectedBranches',
        OWNER: 'ownerUsername',
        DESCRIPTION: 'description',
      },
    },
  },
  {
    command: 'repos activity',
    operations: ['listActivity'],
    summary: 'list repositories by their last push, with pushes and runs',
    options: [
      { flags: '--filter <text>', description: 'a part of the name or description' },
      { flags: '--limit <number>', description: 'at most this many (default: 50, the maximum)' },
    ],
    request: ({ option }) => ({
      method: 'GET',
      path: '/activity',
      query: { filter: option('filter'), limit: option('limit') },
    }),
    show: {
      kind: 'table',
      columns: {
        NAME: 'name',
        PUSHED: dateOf('pushedAt'),
        'PUSHES IN 13 WEEKS': (row) => sumOf(at(row, 'pushes')),
        'LAST RUN': (row) => lastRunOf(at(row, 'runs')),
        ABOUT: (row) => textAt(row, 'description') || textAt(row, 'lastCommit.summary'),
      },
    },
  },
  {
    command: 'repos create',
    operations: ['createRepository'],
    summary: 'create an empty repository',
    arguments: ['name'],
    options: [
      {
        flags: '--username <username>',
        description: 'owner (default: admin)',
        only: 'local',
      },
      { flags: '--default-branch <branch>', description: 'default branch (default: main)' },
      {
        flags: '--remote <remote>',
        description: 'add it as a remote to the clone that you are in, and let Git log in to it',
        only: 'server',
      },
    ],
    run: runCreate,
  },
  {
    command: 'repos show',
    operations: ['getRepository'],
    summary: 'show a repository',
    arguments: ['repository'],
    request: (input) => ({ method: 'GET', path: repositoryPath(input) }),
    show: { kind: 'fields', columns: repositoryFields },
  },
  {
    command: 'repos edit',
    operations: ['updateRepository'],
    summary: 'change the name, description, default branch and settings',
    arguments: ['repository'],
    options: [
      { flags: '--name <name>', description: 'new name' },
      { flags: '--description <text>', description: 'new description' },
      { flags: '--default-branch <branch>', description: 'new default branch' },
      {
        flags: '--leak-guard <state>',
        description: 'whether pushes with credentials are refused',
        choices: ['on', 'off'],
      },
      {
        flags: '--run-tokens <access>',
        description: 'the most that tokens of workflow runs may do',
        choices: ['read', 'write'],
      },
    ],
    request: (input) => ({
      method: 'PATCH',
      path: repositoryPath(input),
      body: {
        name: input.option('name'),
        description: input.option('description'),
        defaultBranch: input.option('defaultBranch'),
        leakGuard: switchOf(input.option('leakGuard')),
        runTokens: input.option('runTokens'),
      },
    }),
    show: { kind: 'sentence', text: (body) => `Changed ${textAt(body, 'name')}.` },
  },
  {
    command: 'repos rename',
    operations: ['updateRepository'],
    summary: 'rename a repository',
    arguments: ['repository', 'name'],
    request: (input) => ({
      method: 'PATCH',
      path: repositoryPath(input),
      body: { name: input.argument('name') },
    }),
    show: { kind: 'sentence', text: (body) => `Renamed to ${textAt(body, 'name')}.` },
  },
  {
    command: 'repos delete',
    operations: ['deleteRepository'],
    summary: 'delete a repository and everything that belongs to it; svc deleted-repos restores it',
    arguments: ['name'],
    confirm: ({ argument }) => ({
      question: `This deletes ${argument('name')} and everything that belongs to it. Type its name to continue: `,
      expected: argument('name'),
    }),
    request: ({ argument }) => ({ method: 'DELETE', path: path`/repos/${argument('name')}` }),
    show: {
      kind: 'sentence',
      text: (_, { argument }) =>
        `Deleted ${argument('name')}. svc deleted-repos list shows its id and how long it is kept; svc deleted-repos restore ID brings it back.`,
      json: ({ argument }) => ({ name: argument('name'), deleted: true }),
    },
  },
  ...['repos import', 'import'].map(
    (command): ClientOperation => ({
      command,
      operations: ['importRepository', 'getRepository'],
      summary:
        'import a repository with all its refs from an https, http, ssh or git address, or an absolute path',
      arguments: ['source', '[name]'],
      options: [
        { flags: '--username <username>', description: 'owner (default: admin)', only: 'local' },
      ],
      notes:
        '\nCredentials in an address (user:password@) are used once and not stored. Ctrl-C\ncancels an import into the data directory; a server continues it.',
      run: runImport,
    }),
  ),
  {
    command: 'clone',
    operations: ['getRepository'],
    summary: 'clone a repository with Git, which then needs no token in an address',
    arguments: ['name', '[folder]'],
    options: [{ flags: '--ssh', description: 'clone over SSH, with your key' }],
    notes:
      '\nThe name may also be an address of the repository, of Git or of its page; an SSH\naddress clones over SSH.',
    run: runClone,
  },
  {
    command: 'deleted-repos list',
    operations: ['listDeletedRepositories'],
    summary: 'list the deleted repositories that can be restored',
    request: () => ({ method: 'GET', path: '/deleted-repos' }),
    show: {
      kind: 'table',
      isPaged: true,
      columns: {
        ID: 'id',
        NAME: 'name',
        OWNER: 'ownerUsername',
        DELETED: dateOf('deletedAt'),
        'KEPT UNTIL': dateOf('purgeAt'),
      },
    },
  },
  {
    command: 'deleted-repos restore',
    operations: ['restoreRepository'],
    summary: 'restore a repository with everything that belonged to it',
    arguments: ['id'],
    options: [
      {
        flags: '--name <name>',
        description: 'new name of the repository (default: its former name)',
      },
    ],
    request: ({ argument, option }) => ({
      method: 'POST',
      path: path`/deleted-repos/${argument('id')}/restore`,
      body: { name: option('name') },
    }),
    show: { kind: 'sentence', text: (body) => `Restored ${textAt(body, 'name')}.` },
  },
  {
    command: 'deleted-repos purge',
    operations: ['purgeRepository'],
    summary: 'remove a deleted repository for good',
    arguments: ['id'],
    confirm: ({ argument }) => ({
      question: `This removes the repository ${argument('id')} for good. Type its id to continue: `,
      expected: argument('id'),
    }),
    request: ({ argument }) => ({ method: 'DELETE', path: path`/deleted-repos/${argument('id')}` }),
    show: {
      kind: 'sentence',
      text: (_, { argument }) => `Purged ${argument('id')}.`,
      json: ({ argument }) => ({ id: argument('id'), purged: true }),
    },
  },
  {
    command: 'collaborators list',
    operations: ['listCollaborators'],
    summary: 'list the collaborators of a repository',
    arguments: ['repository'],
    request: (input) => ({ method: 'GET', path: `${repositoryPath(input)}/collaborators` }),
    show: { kind: 'table', columns: { USERNAME: 'username', ROLE: 'role' }, rows: toRoles },
  },
  {
    command: 'collaborators add',
    operations: ['addCollaborator'],
    summary: 'add a collaborator, or change the role of one',
    arguments: ['repository', 'username'],
    options: [
      {
        flags: '--role <role>',
        description: 'what the user may do (default: write)',
        choices: ['read', 'write', 'maintain', 'admin'],
      },
    ],
    request: (input) => ({
      method: 'POST',
      path: `${repositoryPath(input)}/collaborators`,
      body: { username: input.argument('username'), role: input.option('role') },
    }),
    show: {
      kind: 'sentence',
      text: (body, { argument }) =>
        at(body, 'unknown') === true
          ? `Added ${argument('username')}; no token or key has this username yet.`
          : `Added ${argument('username')}.`,
    },
  },
  {
    command: 'collaborators remove',
    operations: ['removeCollaborator'],
    summary: 'remove a collaborator',
    arguments: ['repository', 'username'],
    request: (input) => ({
      method: 'DELETE',
      path: repositoryPath(input) + path`/collaborators/${input.argument('username')}`,
    }),
    show: {
      kind: 'sentence',
      text: (_, { argument }) => `Removed ${argument('username')}.`,
      json: ({ argument }) => ({ username: argument('username'), removed: true }),
    },
  },
]

function toRoles(body: Json): Json[] {
  const names = at(body, 'collaborators')
  const roles = at(body, 'roles')
  return (Array.isArray(names) ? names : []).map((name) => ({
    username: name,
    role: roleOf(roles, String(name)),
  }))
}

function roleOf(roles: Json, name: string): Json {
  const isObject = roles !== null && typeof roles === 'object' && !Array.isArray(roles)
  return isObject && Object.hasOwn(roles, name) ? (roles[name] ?? '') : ''
}

/** `svc clone` */
async function runClone(work: Work): Promise<void> {
  const { client, input, git } = work
  // Not the name in the response: the server must not choose where Git writes.
  const given = input.argument('name')
  const name = isGitAddress(given) ? repositoryOf(given, client.url) : given.replace(/\.git$/, '')
  if (name === undefined) {
    throw new UsageError(
      `${given} is no address of a repository on ${client.url}; --server chooses another server, and git clone works for any.`,
    )
  }
  const repository = await client.json({ method: 'GET', path: path`/repos/${name}` })
  const folder = input.argument('folder') || name
  const isSsh = input.flag('ssh') === true || isSshAddress(given)
  const address = isSsh
    ? at(repository, 'cloneUrls.ssh')
    : client.url + path`/repos/${`${name}.git`}`
  // Git would run commands for other schemes.
  if (typeof address !== 'string' || !/^(https?|ssh):\/\/[^-]/.test(address)) {
    throw new CommandError('failure', 'The server has no address for SSH; clone without --ssh.')
  }
  const settings = isSsh ? [] : helperSettings(work).map(([key, value]) => `${key}=${value}`)
  const options = settings.flatMap((setting) => ['--config', setting])
  const code = await git.show(['clone', ...options, '--', address, folder])
  if (code !== 0) throw new CommandError('failure', 'git clone failed; its message is above.')
  showResult(work, { name, folder, address }, `Cloned ${name} into ${folder}.`)
}

/** `svc repos create` */
async function runCreate(work: Work): Promise<void> {
  const { client, input, git } = work
  const remote = input.option('remote')
  const { code } = remote === undefined ? { code: 0 } : await git.run(['rev-parse', '--git-dir'])
  if (code !== 0) {
    throw new CommandError(
      'failure',
      'Nothing was created: --remote takes a clone, and here is none.',
    )
  }
  const body = await client.json({
    method: 'POST',
    path: '/repos',
    body: { name: input.argument('name'), defaultBranch: input.option('defaultBranch') },
  })
  const name = textAt(body, 'name')
  if (remote !== undefined) {
    const address = `${client.url}/repos/${name}.git`
    const added = await git.run(['remote', 'add', '--', remote, address])
    if (added.code !== 0) {
      throw new CommandError(
        'failure',
        `Created ${name}, but Git refuses the remote; add it under another name: git remote add NAME ${address}`,
      )
    }
    await setCredentialHelper(work)
  }
  showResult(work, body, `Created ${name}.`)
}
