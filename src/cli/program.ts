import { Command, CommanderError, Option } from 'commander'
import type { App, AppTools } from '#app.ts'
import { SettingsError } from '#config/settings.ts'
import { addClientCommands } from './client-commands.ts'
import {
  adoptHelp,
  backupHelp,
  doctorHelp,
  mcpHelp,
  programHelp,
  restoreHelp,
  runHelp,
  runnerDoctorHelp,
  runnerHelp,
  secretsHelp,
  settingsHelp,
} from './help-texts.ts'
import type { DoctorCommandOptions } from './local/doctor-command.ts'
import type { RunOptions } from './runs/run-workflows.ts'
import type { RunnerCommandOptions } from './runs/runner-command.ts'
import type { ClientContext } from './servers/connect.ts'
import { CommandError, UsageError } from './terminal/command-errors.ts'
import type { Terminal } from './terminal/terminal.ts'

type Options = {
  version: string
  terminal: Terminal
  /** What commands for servers use, apart from the terminal. */
  client: Omit<ClientContext, 'version' | 'terminal' | 'withApp'>
  serve: () => Promise<void>
  /** Serves MCP on standard input and output. */
  mcp: (options: { server?: string }) => Promise<void>
  /** Runs a command with an app, and closes it afterwards. */
  withApp: (run: (app: App) => Promise<void>) => Promise<void>
  doctor: (options: DoctorCommandOptions) => Promise<void>
  runner: (options: RunnerCommandOptions) => Promise<void>
  /** Checks this machine for a runner. */
  runnerDoctor: (options: { json?: boolean }) => Promise<void>
  run: (files: string[], options: RunOptions) => Promise<void>
  /** Runs a command that needs no data directory, or creates one. */
  withTools: (run: (tools: AppTools) => Promise<void>) => Promise<void>
}

/** Commander's errors about a command line. */
const invalidUsage = new Set([
  'commander.conflictingOption',
  'commander.excessArguments',
  'commander.invalidArgument',
  'commander.missingArgument',
  'commander.missingMandatoryOptionValue',
  'commander.optionMissingArgument',
  'commander.unknownCommand',
  'commander.unknownOption',
])

/** The exit code after Commander has printed help, a version or an error. */
function exitCodeOfUsage({ code, exitCode }: CommanderError): number {
  return invalidUsage.has(code) ? 2 : exitCode
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
    // Arguments of single commands are in their own help.
    .configureHelp({
      // Else a description beside long terms is wider than 80 columns.
      minWidthToWrap: 30,
      subcommandTerm: (command) =>
        command.parent?.parent
          ? `${command.name()} ${command.usage().replace(/^\[options\] ?/, '')}`.trim()
          : command.name(),
    })
    .showHelpAfterError('(svc --help lists the commands)')
    .exitOverride()
    .addHelpText('after', programHelp)

  addServerCommands(program, options)
  addWorkflowCommands(program, options)
  addClientCommands(program, clientContextOf(options))
  addMaintenanceCommands(program, options)
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
    .option('--server <name>', 'a server of svc servers')
    .addHelpText('after', mcpHelp)
    .action(mcp)
}

function addWorkflowCommands(program: Command, options: Options): void {
  const { runner, runnerDoctor, run } = options
  const ofRunner = program
    .command('runner')
    .description('execute workflow runs of a server, on any machine')
    // Required, but not by `runner doctor`.
    .option('--server <url>', 'address of the service')
    .option('--token <token>', 'token with the permission runner; - reads standard input')
    .option('--name <name>', 'name of the runner (default: the host name)')
    .option('--label <label...>', 'additional labels for runs-on')
    .option('--jobs <number>', 'maximum number of concurrent jobs (default: 1 per core)')
    .option('--folder <folder>', 'working directory (default: ~/.cache/svc-runner)')
    .addHelpText('after', runnerHelp)
    .action(runner)

  ofRunner
    .command('doctor')
    .description('check what a runner on this machine gives to steps: isolation, git and tools')
    .option(...json)
    .addHelpText('after', runnerDoctorHelp)
    .action(runnerDoctor)

  program
    .command('run [files...]')
    .description('run workflow files of the current repository on this machine')
    .option('--check', 'only check the files, wherever they are, for errors')
    .option('--server <name>', 'with --check: the server whose runner will execute them')
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
    .option('--artifacts <directory>', 'where to keep artifacts (default: removed with the run)')
    .option(
      '--network <network>',
      'network of the steps: none, full, or hosts as in SVC_STEP_HOSTS',
    )
    .addHelpText('after', runHelp)
    .action(run)
}

function addMaintenanceCommands(program: Command, { terminal, withApp }: Options): void {
  groupNamed(program, 'repos')
    .command('maintain [name]')
    .description('maintain a repository of the data directory now, whether a server runs or not')
    .option('--all', 'all repositories')
    .option('--full', 'combine all packs, and delete objects unreachable for two weeks')
    .option(...json)
    .action((name, options) =>
      withApp(async (app) => {
        const { maintainRepositories } = await import('./local/maintenance-commands.ts')
        await maintainRepositories(app, name, options, terminal)
      }),
    )
  groupNamed(program, 'secrets')
    .addHelpText('after', secretsHelp)
    .command('rotate')
    .description(
      'encrypt all secrets of the data directory again with the first encryption key, so that no other is needed',
    )
    .option(
      '--discard-unreadable',
      'delete secrets that no key decrypts, and disable webhooks that lose theirs; no server may be running',
    )
    .option('--yes', 'do not ask for confirmation')
    .option(...json)
    .action((options) =>
      withApp(async (app) => {
        const { rotateSecrets } = await import('./local/maintenance-commands.ts')
        await rotateSecrets(app, options, terminal)
      }),
    )
}

function addBackupCommands(program: Command, { terminal, withApp, withTools }: Options): void {
  const backup = program
    .command('backup <folder>')
    .description('back up everything to a folder, whether a server runs or not')
    .option('--with-keys', 'include the encryption key and the SSH host key')
    .option('--recheck', 'read all files of earlier backups again, and replace those that changed')
    .option(...json)
    .addHelpText('after', backupHelp)
    .action((folder, options) =>
      withApp(async (app) => {
        const { backUpTo } = await import('./local/backup-commands.ts')
        await backUpTo(app, folder, options, terminal)
      }),
    )
  backup
    .command('verify <folder>')
    .description('verify that every row and ref of a backup can be restored')
    .option(...json)
    // Commander gives these options to `backup`, which has them, too.
    .action((folder, _, command) =>
      withTools(async (tools) => {
        const { verifyBackup } = await import('./local/backup-commands.ts')
        await verifyBackup(tools, folder, command.optsWithGlobals(), terminal)
      }),
    )
  program
    .command('restore <folder>')
    .description('restore a backup into a new data directory at SVC_DATA_DIR')
    .option(...json)
    .addHelpText('after', restoreHelp)
    .action((folder, options) =>
      withTools(async (tools) => {
        const { restoreFrom } = await import('./local/backup-commands.ts')
        await restoreFrom(tools, folder, options, terminal)
      }),
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
    .action((options) =>
      withApp(async (app) => {
        const { adoptInto } = await import('./local/maintenance-commands.ts')
        await adoptInto(app, options, terminal)
      }),
    )
}

function groupNamed(program: Command, name: string): Command {
  return program.commands.find((command) => command.name() === name) ?? program.command(name)
}

function clientContextOf({ version, terminal, client, withApp }: Options): ClientContext {
  return { version, terminal, withApp, ...client }
}

function withoutKey(text: string): string {
  const [heading = ''] = /'-----BEGIN [A-Z ]+/.exec(text) ?? []
  const start = text.indexOf(heading) + heading.length
  const end = text.lastIndexOf("'")
  return heading === '' || end < start ? text : `${text.slice(0, start)}…${text.slice(end)}`
}

/** How a command ends that fails. */
type Failure = {
  /** What is printed. */
  text: string
  exitCode: number
  /** Whether it is no bug. */
  isExpected: boolean
}

// By name: their modules are loaded with the commands that use them.
const expectedErrors = new Set([
  'BackupError',
  'CommandError',
  'DataDirectoryError',
  'Problem',
  'RunnerError',
  'SettingsError',
  'UsageError',
])

/** Translates an error of a command. Expected errors are one line; any other error is a bug and shows its stack. */
export function toFailure(error: unknown): Failure {
  // Commander has printed it.
  if (error instanceof CommanderError)
    return { text: '', exitCode: exitCodeOfUsage(error), isExpected: true }
  const isExpected = isExpectedError(error)
  const text = explain(error, isExpected).replace(/^(?=.)/gm, 'svc: ')
  return { text: `${text}\n`, exitCode: exitCodeOf(error), isExpected }
}

function isExpectedError(error: unknown): boolean {
  if (!(error instanceof Error)) return true
  const isFromSystem = 'code' in error || error.constructor === Error
  return expectedErrors.has(error.name) || isFromSystem
}

function explain(error: unknown, isExpected: boolean): string {
  if (!(error instanceof Error)) return String(error)
  return isExpected ? error.message : (error.stack ?? error.message)
}

function exitCodeOf(error: unknown): number {
  if (error instanceof CommandError) return error.exitCode
  return error instanceof SettingsError || error instanceof UsageError ? 2 : 1
}
