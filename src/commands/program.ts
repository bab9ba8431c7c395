import { Command, Option } from 'commander'
import { origins } from '../access/principal.ts'
import type { App, AppTools } from '../app.ts'
import { type AuditOptions, listAudit } from './audit-command.ts'
import { backUpTo, restoreFrom, verifyBackup } from './backup-commands.ts'
import {
  listDeletedRepositories,
  purgeRepository,
  restoreRepository,
} from './deleted-repository-commands.ts'
import type { DoctorCommandOptions } from './doctor-command.ts'
import {
  adoptHelp,
  backupHelp,
  doctorHelp,
  mcpHelp,
  restoreHelp,
  runHelp,
  runnerHelp,
  secretsHelp,
  secretUsage,
  settingsHelp,
} from './help-texts.ts'
import { importRepository } from './import-command.ts'
import { addKey, listKeys, removeKey } from './key-commands.ts'
import { maintainRepositories } from './maintenance-commands.ts'
import { createRepository, deleteRepository, listRepositories } from './repository-commands.ts'
import type { RunOptions } from './run-workflows.ts'
import type { RunnerCommandOptions } from './runner-command.ts'
import { deleteSecret, listSecrets, rotateSecrets, setSecret } from './secret-commands.ts'
import { adoptInto } from './store-commands.ts'
import type { Terminal } from './terminal.ts'
import { createToken, listTokens, revokeToken } from './token-commands.ts'

type Options = {
  version: string
  terminal: Terminal
  serve: () => Promise<void>
  /** Serves MCP on standard input and output. */
  mcp: () => Promise<void>
  /** Runs a command with an app, and closes it afterwards. */
  withApp: (run: (app: App) => Promise<void>) => Promise<void>
  doctor: (options: DoctorCommandOptions) => Promise<void>
  runner: (options: RunnerCommandOptions) => Promise<void>
  run: (files: string[], options: RunOptions) => Promise<void>
  /** Runs a command that needs no data directory, or creates one. */
  withTools: (run: (tools: AppTools) => Promise<void>) => Promise<void>
}

const json = ['--json', 'print JSON'] as const

const collect = (value: string, all: string[] = []) => [...all, value]

/** Defines all commands and their options. */
export function createProgram(options: Options): Command {
  const program = new Command('svc')
    .description('Hosts Git repositories for people, automation and agents.')
    .version(options.version)
    // A private key given by mistake looks like an option, and must not appear in the error.
    .configureOutput({
      outputError: (text, write) => write(withoutKey(text)),
    })
    .showHelpAfterError('(svc --help lists the commands)')
    .addHelpText('after', '\nSettings are environment variables: svc serve --help lists them.')

  addServerCommands(program, options)
  addAuditCommand(program, options)
  addWorkflowCommands(program, options)
  addAccessCommands(program, options)
  addRepositoryCommands(program, options)
  addDeletedRepositoryCommands(program, options)
  addSecretCommands(program, options)
  addBackupCommands(program, options)
  addStoreCommands(program, options)
  return program
}

function addServerCommands(program: Command, { serve, doctor, mcp }: Options): void {
  program
    .command('serve')
    .description('start the service')
    .addHelpText('after', settingsHelp())
    .action(serve)

  program
    .command('doctor')
    .description('check the installation and suggest fixes')
    .addOption(
      new Option('--repository <name>', 'check the objects of this repository only').conflicts(
        'fsck',
      ),
    )
    .option('--no-fsck', 'skip the check of repository objects, which takes longest')
    .option('--json', 'print the findings as a JSON array')
    .addHelpText('after', doctorHelp)
    .action(doctor)

  program
    .command('mcp')
    .description('give an agent on this machine tools for a server (Model Context Protocol)')
    .addHelpText('after', mcpHelp)
    .action(mcp)
}

function addAuditCommand(program: Command, { terminal, withApp }: Options): void {
  program
    .command('audit')
    .description('list who changed what, from where; newest first')
    .option('--username <name>', 'only changes by this user')
    .option('--credential <id>', 'only with this token or SSH key; local for commands')
    .option('--action <action>', 'only this action, such as token.created; repeatable', collect)
    .option('--repository <name>', 'only changes of this repository')
    .addOption(new Option('--via <origin>', 'only changes made in this way').choices(origins))
    .option('--address <address>', 'only from this IP address')
    .option('--since <time>', 'only from this time on, such as 2026-11-24T08:00Z')
    .option('--until <time>', 'only up to this time')
    .option('--limit <number>', 'maximum number of entries', '100')
    .option(...json)
    .action((options: AuditOptions) => withApp((app) => listAudit(app, options, terminal)))
}

function addWorkflowCommands(program: Command, { runner, run }: Options): void {
  program
    .command('runner')
    .description('execute workflow runs of a server, on any machine')
    .requiredOption('--server <url>', 'address of the service')
    .option('--token <token>', 'token with the permission runner; - reads standard input')
    .option('--name <name>', 'name of the runner (default: the host name)')
    .option('--label <label...>', 'additional labels for runs-on')
    .option('--jobs <number>', 'maximum number of concurrent jobs (default: 1 per core)')
    .option('--folder <folder>', 'working directory (default: ~/.cache/svc-runner)')
    .addHelpText('after', runnerHelp)
    .action(runner)

  program
    .command('run [files...]')
    .description('run workflow files of the current repository on this machine')
    .option('--check', 'only check the files for errors')
    .option('--job <id>', 'run only this job and the jobs that it needs; repeatable', collect)
    .addOption(
      new Option(
        '--event <event>',
        'value of github.event_name; without files, selects the workflows for this event',
      ).choices(['push', 'workflow_dispatch', 'schedule']),
    )
    .option('--input <name=value>', 'input of workflow_dispatch; repeatable', collect)
    .option(
      '--secret <name>',
      'secret, with its value in the environment variable of the same name; repeatable',
      collect,
    )
    .option('--secrets-file <file>', 'file with secrets as NAME=value lines')
    .addOption(new Option('--network <network>', 'network of the steps').choices(['none', 'full']))
    .addHelpText('after', runHelp)
    .action(run)
}

function addAccessCommands(program: Command, { terminal, withApp }: Options): void {
  const tokens = program.command('tokens').description('manage API tokens of the data directory')
  tokens
    .command('create')
    .description('create a token and print it')
    .option('--name <name>', 'name of the token', 'command line')
    .option('--permission <permission...>', 'permissions (default: repo:read repo:write)')
    .option(
      '--username <username>',
      'user that the token acts as (default: its id; admin for admin tokens)',
    )
    .option('--repository <name...>', 'the only repositories that it can see')
    .option('--ref <pattern...>', 'the only refs that it can push, such as refs/heads/agents/*')
    .option('--expires-in-days <days>', '1 to 3650, or never (default: 365)')
    .option('--expires-in-seconds <seconds>', 'in place of days, 60 or more')
    .option(...json)
    .action((options) => withApp((app) => createToken(app, options, terminal)))
  tokens
    .command('list')
    .description('list all tokens')
    .option(...json)
    .action((options) => withApp((app) => listTokens(app, options, terminal)))
  tokens
    .command('revoke <id>')
    .description('delete a token')
    .option(...json)
    .action((id, options) => withApp((app) => revokeToken(app, id, options, terminal)))

  const keys = program.command('keys').description('manage SSH keys of the data directory')
  for (const add of [keys.command('add [key]'), program.command('keys-add [key]')]) {
    add
      .description('add an SSH key: a .pub file, its content, or - for standard input')
      .option('--username <username>', 'user that the key acts as', 'admin')
      .option('--name <name>', "name of the key (default: the key's comment)")
      .option('--permission <permission...>', 'permissions (default: repo:read repo:write)')
      .option('--expires-in-days <days>', '1 to 3650, or never (default: never)')
      .option(...json)
      .action((key, options) => withApp((app) => addKey(app, key, options, terminal)))
  }
  keys
    .command('list')
    .description('list all SSH keys')
    .option('--username <username>', 'list only the keys of this user')
    .option(...json)
    .action((options) => withApp((app) => listKeys(app, options, terminal)))
  keys
    .command('remove <id>')
    .description('delete an SSH key')
    .option(...json)
    .action((id, options) => withApp((app) => removeKey(app, id, options, terminal)))
}

function addRepositoryCommands(program: Command, { terminal, withApp }: Options): void {
  const repos = program.command('repos').description('manage repositories of the data directory')
  repos
    .command('list')
    .description('list all repositories')
    .option(...json)
    .action((options) => withApp((app) => listRepositories(app, options, terminal)))
  repos
    .command('create <name>')
    .description('create an empty repository')
    .option('--username <username>', 'owner of the repository', 'admin')
    .option('--default-branch <branch>', 'default branch', 'main')
    .option(...json)
    .action((name, options) => withApp((app) => createRepository(app, name, options, terminal)))
  repos
    .command('import <source> [name]')
    .description(
      'import a repository with all its refs from an https, http, ssh or git address, or an absolute path',
    )
    .option('--username <username>', 'owner of the repository', 'admin')
    .option(...json)
    .addHelpText(
      'after',
      '\nCredentials in an address (user:password@) are used once and not stored. Ctrl-C cancels the import and leaves nothing behind.',
    )
    .action((source, name, options) =>
      withApp((app) => importRepository(app, [source, name], options, terminal)),
    )
  repos
    .command('delete <name>')
    .description(
      'delete a repository and everything that belongs to it; svc deleted-repos restores it',
    )
    .option('--yes', 'do not ask for confirmation')
    .option(...json)
    .action((name, options) => withApp((app) => deleteRepository(app, name, options, terminal)))
  repos
    .command('maintain [name]')
    .description('maintain a repository now, whether a server runs or not')
    .option('--all', 'all repositories')
    .option('--full', 'combine all packs, and delete objects unreachable for two weeks')
    .option(...json)
    .action((name, options) => withApp((app) => maintainRepositories(app, name, options, terminal)))
}

function addDeletedRepositoryCommands(program: Command, { terminal, withApp }: Options): void {
  const deletedRepos = program
    .command('deleted-repos')
    .description('restore deleted repositories of the data directory')
  deletedRepos
    .command('list')
    .description('list the deleted repositories that can be restored')
    .option(...json)
    .action((options) => withApp((app) => listDeletedRepositories(app, options, terminal)))
  deletedRepos
    .command('restore <id>')
    .description('restore a repository with everything that belonged to it')
    .option('--name <name>', 'new name of the repository (default: its former name)')
    .option(...json)
    .action((id, options) => withApp((app) => restoreRepository(app, id, options, terminal)))
  deletedRepos
    .command('purge <id>')
    .description('remove a deleted repository for good')
    .option('--yes', 'do not ask for confirmation')
    .option(...json)
    .action((id, options) => withApp((app) => purgeRepository(app, id, options, terminal)))
}

function addSecretCommands(program: Command, { terminal, withApp }: Options): void {
  const secrets = program
    .command('secrets')
    .description('manage secrets of repositories')
    .addHelpText('after', secretsHelp)
  secrets
    .command('list <repository>')
    .description('list the secrets of a repository, without their values')
    .option(...json)
    .action((name, options) => withApp((app) => listSecrets(app, name, options, terminal)))
  secrets
    .command('set <repository> <name>')
    .description('create or replace a secret; the value is read from standard input or a prompt')
    // An excess argument may be the value, which must not appear in the error.
    .configureOutput({ outputError: (_, write) => write(`error: ${secretUsage}\n`) })
    .option(...json)
    .action((repository, name, options) =>
      withApp((app) => setSecret(app, [repository, name], options, terminal)),
    )
  secrets
    .command('delete <repository> <name>')
    .description('delete a secret')
    .option(...json)
    .action((repository, name, options) =>
      withApp((app) => deleteSecret(app, [repository, name], options, terminal)),
    )
  secrets
    .command('rotate')
    .description(
      'encrypt all secrets again with the first encryption key, so that no other is needed',
    )
    .option(
      '--discard-unreadable',
      'delete secrets that no key decrypts, and disable webhooks that lose theirs; no server may be running',
    )
    .option('--yes', 'do not ask for confirmation')
    .option(...json)
    .action((options) => withApp((app) => rotateSecrets(app, options, terminal)))
}

function addBackupCommands(program: Command, { terminal, withApp, withTools }: Options): void {
  const backup = program
    .command('backup <folder>')
    .description('back up everything to a folder, whether a server runs or not')
    .option('--with-keys', 'include the encryption key and the SSH host key')
    .option('--recheck', 'read all files of earlier backups again, and replace those that changed')
    .option(...json)
    .addHelpText('after', backupHelp)
    .action((folder, options) => withApp((app) => backUpTo(app, folder, options, terminal)))
  backup
    .command('verify <folder>')
    .description('verify that every row and ref of a backup can be restored')
    .option(...json)
    // Commander gives these options to `backup`, which has them, too.
    .action((folder, _, command) =>
      withTools((tools) => verifyBackup(tools, folder, command.optsWithGlobals(), terminal)),
    )
  program
    .command('restore <folder>')
    .description('restore a backup into a new data directory at SVC_DATA_DIR')
    .option(...json)
    .addHelpText('after', restoreHelp)
    .action((folder, options) =>
      withTools((tools) => restoreFrom(tools, folder, options, terminal)),
    )
}

function addStoreCommands(program: Command, { terminal, withApp }: Options): void {
  program
    .command('store')
    .description('manage the store of SVC_STORE')
    .command('adopt')
    .description('move the repositories of the data directory into the store')
    .option(...json)
    .addHelpText('after', adoptHelp)
    .action((options) => withApp((app) => adoptInto(app, options, terminal)))
}

function withoutKey(text: string): string {
  const [heading = ''] = /'-----BEGIN [A-Z ]+/.exec(text) ?? []
  const start = text.indexOf(heading) + heading.length
  const end = text.lastIndexOf("'")
  return heading === '' || end < start ? text : `${text.slice(0, start)}…${text.slice(end)}`
}
