import { isGitAddress } from '#base/git-address.ts'
import type { Json } from '#base/json.ts'
import { nameWithin } from '#base/repository-name.ts'
import { shellWord } from '#base/shell-word.ts'
import { formatRequirement } from '#repositories/requirement-text.ts'
import type { RequirementValue } from '#repositories/requirements.ts'
import { isSshAddress, repositoryOf } from '../servers/clone-remotes.ts'
import { path } from '../servers/http-client.ts'
import { CommandError, UsageError } from '../terminal/command-errors.ts'
import { at, dateOf, listAt, showResult, textAt } from '../terminal/display.ts'
import { importHosts } from './import-host.ts'
import { runImport } from './import-repository.ts'
import type { ClientOperation, Work } from './operation.ts'
import { orNamespace, requirementOf } from './operation-request.ts'

const sumOf = (counts: Json | undefined) =>
  Array.isArray(counts) ? String(counts.reduce<number>((sum, count) => sum + Number(count), 0)) : ''

function lastRunOf(runs: Json | undefined): string {
  const last = Array.isArray(runs) ? runs.at(-1) : undefined
  return last === undefined ? '' : textAt(last, 'conclusion') || textAt(last, 'status')
}

const importNotes = `
Credentials in an address (user:password@) are used once and not stored. Ctrl-C
cancels an import into the data directory; a server continues it. --all and
--from go on after a failure. --from asks for a token, or reads standard input.

  svc import --from gitea https://gitea.example.com --dry-run < token.txt`

const requiresNotes = `
A workflow file needs a successful run at the commit, a status a success of one
of some users, if they are given. A file "from" a ref must be the one there.

  svc protections add main --owners fast-forward --requires ci.yml
  svc protections add main --requires 'status: ci/build by ci-bot'
`

export const repositoryOperations: ClientOperation[] = [
  {
    command: 'repos list',
    operations: ['listRepositories'],
    isLocal: true,
    summary: 'list repositories',
    options: { '--namespace <name>': 'only those in this namespace' },
    table: {
      NAME: 'name',
      CREATED: dateOf('createdAt'),
      PROTECTED: 'protectedBranches',
      OWNER: 'ownerUsername',
      DESCRIPTION: 'description',
    },
  },
  {
    command: 'repos activity',
    operations: ['listActivity'],
    summary: 'list repositories by their last push, with pushes and runs',
    options: {
      '--filter <text>': 'a part of the name or description',
      '--limit <number>': 'at most this many (default: 50, the maximum)',
    },
    isOnePage: true,
    table: {
      NAME: 'name',
      PUSHED: dateOf('pushedAt'),
      'PUSHES IN 13 WEEKS': (row) => sumOf(at(row, 'pushes')),
      'LAST RUN': (row) => lastRunOf(at(row, 'runs')),
      ABOUT: (row) => textAt(row, 'description') || textAt(row, 'lastCommit.summary'),
    },
  },
  {
    command: 'repos create',
    operations: ['createRepository'],
    isLocal: true,
    summary: 'create an empty repository',
    arguments: ['name'],
    options: {
      '--username <username>': { description: 'owner (default: admin)', only: 'local' },
      '--default-branch <branch>': 'default branch (default: main)',
      '--object-format <format>': 'sha1 or sha256 (default: that of the first push)',
      '--visibility <visibility>': 'who can read it without a role in it (default: private)',
      '--remote <remote>': {
        description: 'add it as a remote to the clone that you are in, and let Git log in to it',
        only: 'server',
      },
    },
    run: runCreate,
  },
  {
    command: 'repos show',
    operations: ['getRepository'],
    summary: 'show a repository',
    arguments: ['repository'],
    fields: {
      Name: 'name',
      Description: 'description',
      Owner: 'ownerUsername',
      'Default branch': 'defaultBranch',
      Protected: 'protectedBranches',
      State: 'state',
      'Leak guard': (row) => (at(row, 'leakGuard') === false ? 'off' : 'on'),
      'Run tokens': 'runTokens',
      Visibility: 'visibility',
      Created: dateOf('createdAt'),
      Pushed: dateOf('pushedAt'),
      'Size in bytes': 'sizeBytes',
      HTTP: 'cloneUrls.http',
      SSH: 'cloneUrls.ssh',
      Id: 'id',
    },
  },
  {
    command: 'repos edit',
    operations: ['updateRepository'],
    summary: 'change the name, description, default branch and settings',
    arguments: ['repository'],
    options: {
      '--name <name>': 'new name',
      '--description <text>': 'new description',
      '--default-branch <branch>': 'new default branch',
      '--leak-guard <state>': 'whether pushes with credentials are refused',
      '--run-tokens <access>': 'the most that tokens of workflow runs may do',
      '--visibility <visibility>': 'who can read it without a role in it',
      '--owner-username <username>': 'new owner: your rights as its owner end',
    },
    sentence: (body) => `Changed ${textAt(body, 'name')}.`,
  },
  {
    command: 'repos rename',
    operations: ['updateRepository'],
    summary: 'rename a repository',
    arguments: ['repository', 'name'],
    sentence: (body) => `Renamed to ${textAt(body, 'name')}.`,
  },
  {
    command: 'repos delete',
    operations: ['deleteRepository'],
    isLocal: true,
    summary: 'delete a repository and everything that belongs to it; svc deleted-repos restores it',
    arguments: ['name'],
    confirm: ({ argument }) => ({
      question: `This deletes ${argument('name')} and everything that belongs to it. Type its name to continue: `,
      expected: argument('name'),
    }),
    sentence: (_, { argument }) =>
      `Deleted ${argument('name')}. svc deleted-repos list shows its id and how long it is kept; svc deleted-repos restore ID brings it back.`,
    json: ({ argument }) => ({ name: argument('name'), deleted: true }),
  },
  ...['repos import', 'import'].map(
    (command): ClientOperation => ({
      command,
      operations: ['importRepository', 'getRepository'],
      isLocal: true,
      summary:
        'import repositories with all their refs from an https, http, ssh or git address, or an absolute path',
      arguments: ['[source]', '[name]'],
      options: {
        '--all <folder>': 'every repository in a folder of the server',
        '--from <host>': {
          description: 'every repository of a host, whose address is the source',
          choices: [...importHosts],
        },
        '--visibility <level>': 'with --all: private (default), internal or public',
        '--dry-run': 'with --all or --from: only list what would be imported',
        '--username <username>': { description: 'owner (default: admin)', only: 'local' },
      },
      notes: importNotes,
      run: runImport,
    }),
  ),
  {
    command: 'clone',
    operations: ['getRepository'],
    summary: 'clone a repository with Git, which then needs no token in an address',
    arguments: ['name', '[folder]'],
    options: { '--ssh': 'clone over SSH, with your key' },
    notes:
      '\nThe name may also be an address of the repository, of Git or of its page; an SSH\naddress clones over SSH.',
    run: runClone,
  },
  {
    command: 'deleted-repos list',
    operations: ['listDeletedRepositories'],
    isLocal: true,
    summary: 'list the deleted repositories that can be restored',
    table: {
      ID: 'id',
      NAME: 'name',
      OWNER: 'ownerUsername',
      DELETED: dateOf('deletedAt'),
      'KEPT UNTIL': dateOf('purgeAt'),
    },
  },
  {
    command: 'deleted-repos restore',
    operations: ['restoreRepository'],
    isLocal: true,
    summary: 'restore a repository with everything that belonged to it',
    arguments: ['id'],
    options: { '--name <name>': 'new name of the repository (default: its former name)' },
    sentence: (body) => `Restored ${textAt(body, 'name')}.`,
  },
  {
    command: 'deleted-repos purge',
    operations: ['purgeRepository'],
    isLocal: true,
    summary: 'remove a deleted repository for good',
    arguments: ['id'],
    confirm: ({ argument }) => ({
      question: `This removes the repository ${argument('id')} for good. Type its id to continue: `,
      expected: argument('id'),
    }),
    sentence: (_, { argument }) => `Purged ${argument('id')}.`,
    json: ({ argument }) => ({ id: argument('id'), purged: true }),
  },
  {
    command: 'collaborators list',
    operations: ['listCollaborators'],
    summary: 'list the collaborators of a repository',
    arguments: ['repository'],
    table: { USERNAME: 'username', ROLE: 'role' },
    rows: toRoles,
    note: toUnknown,
  },
  {
    command: 'collaborators add',
    operations: ['addCollaborator'],
    summary: 'add a collaborator, or change the role of one',
    arguments: ['repository', 'username'],
    options: { '--role <role>': 'what the user may do (default: write)' },
    sentence: (body, { argument }) =>
      at(body, 'unknown') === true
        ? `Added ${argument('username')}; no token or key has this username yet.`
        : `Added ${argument('username')}.`,
  },
  {
    command: 'collaborators remove',
    operations: ['removeCollaborator'],
    summary: 'remove a collaborator',
    arguments: ['repository', 'username'],
    sentence: (_, { argument }) => `Removed ${argument('username')}.`,
    json: ({ argument }) => ({ username: argument('username'), removed: true }),
  },
  orNamespace({
    command: 'protections list',
    operations: ['listBranchProtections', 'listTagProtections'],
    choose: ({ flag }) => (flag('tag') ? 'listTagProtections' : 'listBranchProtections'),
    summary: 'list the rules of protected branches, or tags',
    arguments: ['repository'],
    options: {
      '--tag': 'list those of tags',
      '--warnings': 'also show what they require although it is not there',
    },
    table: {
      ...{ PATTERN: patternOf, OWNERS: 'owners', APPROVALS: 'approvals' },
      ...{ 'CODE OWNERS': 'codeOwners', QUEUE: 'queue', REQUIRES: requiresOf },
    },
    rows: (body) => [...listAt(body, 'rules'), ...listAt(body, 'inherited')],
    note: (body) => warningsOf(body) || undefined,
  }),
  orNamespace({
    command: 'protections add',
    operations: ['addBranchProtection', 'addTagProtection'],
    choose: ({ flag }) => (flag('tag') ? 'addTagProtection' : 'addBranchProtection'),
    summary: 'protect branches by name or pattern, or change the rule',
    arguments: ['repository', 'pattern'],
    options: {
      '--tag': 'protect tags, not branches',
      '--owners <updates>': 'updates that owners may make (default: any)',
      '--requires <what...>': 'what the commit must have, in place of all before',
      '--approvals <number>': 'how many must approve a change before it lands',
      '--code-owners <state>': 'whether owners of paths must',
      '--queue <state>': 'changes land by a queue',
    },
    notes: requiresNotes,
    fill: ({ list }) => ({ requires: list('requires')?.map(requirementOf) }),
    sentence: (body, { argument, flag }) =>
      `Protected the ${flag('tag') ? 'tag' : 'branch'} ${argument('pattern')}. ${warningsOf(body)}`.trim(),
  }),
  orNamespace({
    command: 'protections remove',
    operations: ['deleteBranchProtection', 'deleteTagProtection'],
    choose: ({ flag }) => (flag('tag') ? 'deleteTagProtection' : 'deleteBranchProtection'),
    summary: 'remove a rule',
    arguments: ['repository', 'pattern'],
    options: { '--tag': 'a rule of tags, not of branches' },
    sentence: (_, { argument }) => `Removed the rule ${argument('pattern')}.`,
  }),
]

function requiresOf(row: Json): string {
  // The API has them in this form.
  return listAt(row, 'requires')
    .map((one) => formatRequirement(one as RequirementValue))
    .join('; ')
}

function warningsOf(body: Json): string {
  return listAt(body, 'warnings')
    .map((text) => `Warning: ${text}`)
    .join(' ')
}

/** The pattern of a rule, with the namespace that has it. */
function patternOf(row: Json): string {
  const namespace = textAt(row, 'namespace')
  return `${textAt(row, 'pattern')}${namespace && ` (of ${namespace})`}`
}

function toRoles(body: Json): Json[] {
  const roles = new Map(Object.entries<Json>(Object(at(body, 'roles'))))
  const collaborators = listAt(body, 'collaborators').map((name) => ({
    username: name,
    role: roles.get(String(name)) ?? '',
  }))
  const members = listAt(body, 'inherited').map((row) => ({
    username: `${textAt(row, 'member')} (of ${textAt(row, 'namespace')})`,
    role: textAt(row, 'role'),
  }))
  return [...collaborators, ...members]
}

function toUnknown(body: Json): string | undefined {
  const unknown = textAt(body, 'unknownUsernames')
  return unknown === '' ? undefined : `No token or key has these usernames yet: ${unknown}.`
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
  const folder = input.argument('folder') || nameWithin(name)
  const isSsh = input.flag('ssh') === true || isSshAddress(given)
  const address = isSsh
    ? at(repository, 'cloneUrls.ssh')
    : `${client.url}/repos/${name.split('/').map(encodeURIComponent).join('/')}.git`
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
  const body = await client.json(work.request())
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

/** The settings that make `svc git-credential` the only helper for a server. */
function helperSettings({ client, launcher }: Pick<Work, 'client' | 'launcher'>) {
  const key = `credential.${client.url}.helper`
  // The empty value drops the helpers of the user's configuration: the token does not go into their stores.
  return [
    [key, ''],
    [key, `!${shellWord(launcher)} git-credential`],
  ] as const
}

/** Writes them into the configuration of the clone. */
async function setCredentialHelper(work: Work): Promise<void> {
  for (const [index, [key, value]] of helperSettings(work).entries()) {
    const mode = index === 0 ? '--replace-all' : '--add'
    await work.git.run(['config', '--local', mode, key, value])
  }
}
