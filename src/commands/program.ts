import { Command, Option } from 'commander'
import type { App, AppTools } from '../app.ts'
import type { Setting } from '../config/setting.ts'
import { settings } from '../config/settings-table.ts'
import { backUpTo, restoreFrom, verifyBackup } from './backup-commands.ts'
import type { DoctorCommandOptions } from './doctor-command.ts'
import { importRepository } from './import-command.ts'
import { addKey, listKeys, removeKey } from './key-commands.ts'
import { maintainRepositories } from './maintenance-commands.ts'
import { createRepository, deleteRepository, listRepositories } from './repository-commands.ts'
import type { RunOptions } from './run-workflows.ts'
import type { RunnerCommandOptions } from './runner-command.ts'
import { deleteSecret, listSecrets, rotateSecrets, setSecret } from './secret-commands.ts'
import type { Terminal } from './terminal.ts'
import { createToken, listTokens, revokeToken } from './token-commands.ts'

type Options = {
  version: string
  terminal: Terminal
  serve: () => Promise<void>
  /** Runs a command with an app that is closed afterwards. */
  withApp: (run: (app: App) => Promise<void>) => Promise<void>
  doctor: (options: DoctorCommandOptions) => Promise<void>
  runner: (options: RunnerCommandOptions) => Promise<void>
  run: (files: string[], options: RunOptions) => Promise<void>
  /** Runs a command that needs no data directory, or makes one. */
  withTools: (run: (tools: AppTools) => Promise<void>) => Promise<void>
}

const json = ['--json', 'print JSON'] as const

const collect = (value: string, all: string[] = []) => [...all, value]

/** The command line: every command with its options. */
export function createProgram({
  version,
  terminal,
  serve,
  withApp,
  withTools,
  doctor,
  runner,
  run,
}: Options): Command {
  const program = new Command('svc')
    .description('Hosts Git repositories for people, automation and agents.')
    .version(version)
    // A private key that is given by mistake looks like an option, and must not be repeated.
    .configureOutput({
      outputError: (text, write) => write(withoutKey(text)),
    })
    .showHelpAfterError('(svc --help lists the commands)')
    .addHelpText('after', '\nSettings are environment variables: svc serve --help lists them.')

  program
    .command('serve')
    .description('start the service')
    .addHelpText('after', settingsHelp())
    .action(serve)

  program
    .command('doctor')
    .description('say what is wrong, and the command that mends it')
    .addOption(
      new Option('--repository <name>', 'check the objects of this repository alone').conflicts(
        'fsck',
      ),
    )
    .option('--no-fsck', 'do not check the objects of repositories, which takes longest')
    .option('--json', 'print an array of what was found, as JSON')
    .addHelpText('after', doctorHelp)
    .action(doctor)

  program
    .command('runner')
    .description('execute workflow runs of a server, on any machine')
    .requiredOption('--server <url>', 'the address of the service')
    .option('--token <token>', 'a token with the permission runner; - for standard input')
    .option('--name <name>', "what it is called (default: the machine's name)")
    .option('--label <label...>', 'further labels for runs-on')
    .option('--jobs <number>', 'jobs that are worked on at once (default: 1 for each core)')
    .option('--folder <folder>', 'a folder for its work (default: ~/.cache/svc-runner)')
    .addHelpText('after', runnerHelp)
    .action(runner)

  program
    .command('run [files...]')
    .description('run workflow files of the repository around you, on your own machine')
    .option('--check', 'only say what is wrong with the files')
    .option('--job <id>', 'only this job, with those that it needs; may be given again', collect)
    .addOption(
      new Option(
        '--event <event>',
        'what github.event_name is; without files, those that react to it run',
      ).choices(['push', 'workflow_dispatch', 'schedule']),
    )
    .option('--input <name=value>', 'an input of workflow_dispatch; may be given again', collect)
    .option(
      '--secret <name>',
      'a secret, with the value of the environment variable of this name; may be given again',
      collect,
    )
    .option('--secrets-file <file>', 'a file of NAME=value lines with secrets')
    .addOption(new Option('--network <network>', 'network of the steps').choices(['none', 'full']))
    .addHelpText('after', runHelp)
    .action(run)

  const tokens = program.command('tokens').description('manage API tokens of the data directory')
  tokens
    .command('create')
    .description('make a token and print it')
    .option('--name <name>', 'what it is for', 'command line')
    .option('--permission <permission...>', 'what it may do (default: repo:read repo:write)')
    .option(
      '--username <username>',
      'in whose name it acts (default: its id; admin for admin tokens)',
    )
    .option('--expires-in-days <days>', '1 to 3650, or never (default: 365)')
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
  // One command under two names.
  for (const add of [keys.command('add [key]'), program.command('keys-add [key]')]) {
    add
      .description('register an SSH key: a .pub file, the line in it, or - for standard input')
      .option('--username <username>', 'in whose name it acts', 'admin')
      .option('--name <name>', "what it is called (default: the key's comment)")
      .option('--permission <permission...>', 'what it may do (default: repo:read repo:write)')
      .option('--expires-in-days <days>', '1 to 3650, or never (default: never)')
      .option(...json)
      .action((key, options) => withApp((app) => addKey(app, key, options, terminal)))
  }
  keys
    .command('list')
    .description('list all SSH keys')
    .option('--username <username>', 'those of one username')
    .option(...json)
    .action((options) => withApp((app) => listKeys(app, options, terminal)))
  keys
    .command('remove <id>')
    .description('delete an SSH key')
    .option(...json)
    .action((id, options) => withApp((app) => removeKey(app, id, options, terminal)))

  const repos = program.command('repos').description('manage repositories of the data directory')
  repos
    .command('list')
    .description('list all repositories')
    .option(...json)
    .action((options) => withApp((app) => listRepositories(app, options, terminal)))
  repos
    .command('create <name>')
    .description('make an empty repository')
    .option('--username <username>', 'who owns it', 'admin')
    .option('--default-branch <branch>', 'the branch that a clone checks out', 'main')
    .option(...json)
    .action((name, options) => withApp((app) => createRepository(app, name, options, terminal)))
  repos
    .command('import <source> [name]')
    .description(
      'copy a repository with all of its refs from an https, http, ssh or git address, or an absolute path',
    )
    .option('--username <username>', 'who owns it', 'admin')
    .option(...json)
    .addHelpText(
      'after',
      '\nCredentials in an address, user:password@, are used once and not kept. Ctrl-C leaves nothing behind.',
    )
    .action((source, name, options) =>
      withApp((app) => importRepository(app, [source, name], options, terminal)),
    )
  repos
    .command('delete <name>')
    .description('delete a repository and all that belongs to it')
    .option('--yes', 'do not ask')
    .option(...json)
    .action((name, options) => withApp((app) => deleteRepository(app, name, options, terminal)))
  repos
    .command('maintain [name]')
    .description('put the files of a repository in order now, whether a server runs or not')
    .option('--all', 'all repositories')
    .option('--full', 'unite all packs, and remove what no branch or tag has led to for two weeks')
    .option(...json)
    .action((name, options) => withApp((app) => maintainRepositories(app, name, options, terminal)))

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
    .description('create or replace a secret; its value is read from standard input, or asked for')
    // Whatever was given too much may be the value, which must not be repeated.
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
    .description('seal all secrets with the first encryption key, so that no other is needed')
    .option(
      '--discard-unreadable',
      'delete those that no key opens, and disable webhooks that lose theirs; no server may be running',
    )
    .option('--yes', 'do not ask')
    .option(...json)
    .action((options) => withApp((app) => rotateSecrets(app, options, terminal)))

  const backup = program
    .command('backup <folder>')
    .description('back up everything to a folder, whether the server runs or not')
    .option('--with-keys', 'also the key for secrets and the SSH host key')
    .option('--recheck', 'read again what former backups copied, and mend what has changed')
    .option(...json)
    .addHelpText('after', backupHelp)
    .action((folder, options) => withApp((app) => backUpTo(app, folder, options, terminal)))
  backup
    .command('verify <folder>')
    .description('prove that every row and ref of a backup can be restored')
    .option(...json)
    // Its options go to `backup`, which has them, too.
    .action((folder, _, command) =>
      withTools((tools) => verifyBackup(tools, folder, command.optsWithGlobals(), terminal)),
    )
  program
    .command('restore <folder>')
    .description('make a new data directory, at SVC_DATA_DIR, from a backup')
    .option(...json)
    .addHelpText('after', restoreHelp)
    .action((folder, options) =>
      withTools((tools) => restoreFrom(tools, folder, options, terminal)),
    )

  return program
}

const secretUsage =
  'this takes a repository, a name, and perhaps --json; the value is read from standard input'

const secretsHelp = `
Steps of workflows get the secrets of their repository as variables. Nobody can read one back.

  svc secrets set site NPM_TOKEN < token.txt
  printf %s "$TOKEN" | svc secrets set site NPM_TOKEN`

const doctorHelp = `
It looks at git, the settings, the data directory with its keys, the database, the disk, the
ports, the sandbox and every repository, whether the service runs or not, and changes nothing.
Run it as the user that runs the service, with the same settings. Exit code: 0 without a
fault, warnings or not; 1 with one.`

const runnerHelp = `
It needs no data directory, but git on the PATH; with bubblewrap installed, steps run
in a sandbox. A token is made on the server: svc tokens create --permission runner
Give it as the variable SVC_RUNNER_TOKEN, or by --token - and standard input: what is
on the command line can be read by everybody on the machine.
Settings of the sandbox, SVC_SANDBOX and those after it up to SVC_STEP_FILE_MAX, are
environment variables here, too: svc serve --help. What steps may write and how long
they may take, the server says.
A first SIGTERM or Ctrl-C hands its runs back to the queue, a second one ends it at once.`

const runHelp = `
Without files, all of .svc/workflows run. Each job gets a copy of your working tree, with
what is not committed, but without ignored files; what steps do there does not change yours.
Settings of the sandbox and its limits, SVC_SANDBOX and those after it, are environment
variables: svc serve --help. Ctrl-C cancels the run; a second one ends it at once.
Exit code: 0 for success, 1 for a run that did not succeed, 2 for files with faults and for
what is not there, such as a job of that name, 130 when it was interrupted.

  svc run --check                                   all files, without running them
  svc run ci.yml --job test                         one job of one file
  svc run deploy.yml --input level=debug --secret API_KEY`

const backupHelp = `
The first backup copies everything, later ones to the same folder what is new. Until a backup is finished
the folder holds the former one, whatever happens. A folder holds the backups of one service alone.`

const restoreHelp = `
SVC_DATA_DIR must not be there, or be an empty folder. With SVC_DATABASE_URL, the rows go into that database,
which must be empty; a backup of SQLite restores into PostgreSQL, and the other way round.`

function settingsHelp(): string {
  const entries = Object.values<Setting<unknown>>(settings).map(
    ({ variable, description, accepts, fallback }) =>
      `  ${variable}${fallback && `=${fallback}`}\n      ${description}\n      Takes ${accepts}.\n`,
  )
  return `\nSettings, from the environment, with their defaults:\n\n${entries.join('')}`
}

function withoutKey(text: string): string {
  const [heading = ''] = /'-----BEGIN [A-Z ]+/.exec(text) ?? []
  const start = text.indexOf(heading) + heading.length
  const end = text.lastIndexOf("'")
  return heading === '' || end < start ? text : `${text.slice(0, start)}…${text.slice(end)}`
}
