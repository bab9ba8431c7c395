import { Command, Option } from 'commander'
import type { App, Tools } from '../app.ts'
import { type Setting, settings } from '../config/settings-table.ts'
import { backUpTo, restoreFrom, verifyBackup } from './backup-commands.ts'
import type { DoctorOptions } from './doctor-command.ts'
import { importRepository } from './import-command.ts'
import { addKey, listKeys, removeKey } from './key-commands.ts'
import { maintainRepositories } from './maintenance-commands.ts'
import { createRepository, deleteRepository, listRepositories } from './repository-commands.ts'
import type { Terminal } from './terminal.ts'
import { createToken, listTokens, revokeToken } from './token-commands.ts'

type Options = {
  version: string
  terminal: Terminal
  serve: () => Promise<void>
  /** Runs a command with an app that is closed afterwards. */
  withApp: (run: (app: App) => Promise<void>) => Promise<void>
  doctor: (options: DoctorOptions) => Promise<void>
  /** Runs a command that needs no data directory, or makes one. */
  withTools: (run: (tools: Tools) => Promise<void>) => Promise<void>
}

const json = ['--json', 'print JSON'] as const

/** The command line: every command with its options. */
export function createProgram({
  version,
  terminal,
  serve,
  withApp,
  withTools,
  doctor,
}: Options): Command {
  const program = new Command('svc')
    .description('Hosts Git repositories for people, automation and agents.')
    .version(version)
    // A private key that is given by mistake looks like an option, and must not be repeated.
    .configureOutput({
      outputError: (text, write) => write(text.replace(/'(-----BEGIN [A-Z ]+).*'/s, "'$1…'")),
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

const doctorHelp = `
It looks at git, the settings, the data directory with its keys, the database, the disk, the
ports, the sandbox and every repository, whether the service runs or not, and changes nothing.
Run it as the user that runs the service, with the same settings. Exit code: 0 without a
fault, warnings or not; 1 with one.`

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
