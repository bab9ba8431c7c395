import { type Command, Option } from 'commander'
import type { ClientContext, LocalActions, OptionValues } from './client-context.ts'
import type { ClientOperation } from './operation.ts'
import { accessOperations } from './operations/access-operations.ts'
import { auditOperations } from './operations/audit-operations.ts'
import { browseOperations } from './operations/browse-operations.ts'
import { protectionOperations } from './operations/protection-operations.ts'
import { repositoryOperations } from './operations/repository-operations.ts'
import { runFileOperations } from './operations/run-file-operations.ts'
import { pushOperations, runOperations } from './operations/run-operations.ts'
import { serviceOperations } from './operations/service-operations.ts'
import { webhookOperations } from './operations/webhook-operations.ts'
import { writeOperations } from './operations/write-operations.ts'
import { addSessionCommands } from './session-commands.ts'

export const operations: ClientOperation[] = [
  ...repositoryOperations,
  ...protectionOperations,
  ...accessOperations,
  ...serviceOperations,
  ...auditOperations,
  ...runOperations,
  ...runFileOperations,
  ...pushOperations,
  ...browseOperations,
  ...writeOperations,
  ...webhookOperations,
]

const groups: Record<string, string> = {
  repos: 'manage repositories',
  'deleted-repos': 'restore deleted repositories',
  collaborators: 'manage collaborators of a repository',
  protections: 'protect branches and tags of a repository',
  tokens: 'manage API tokens',
  keys: 'manage SSH keys',
  secrets: 'manage secrets of repositories',
  runs: 'start, watch and repeat workflow runs',
  artifacts: 'list and download artifacts of workflow runs',
  caches: 'list and delete caches of workflow runs',
  pushes: 'list pushes, and undo them',
  browse: 'read files and history without a clone',
  refs: 'create, move and delete branches and tags',
  webhooks: 'manage webhooks of a repository',
  deliveries: 'inspect and repeat deliveries of webhooks',
}

/** Adds the commands for the operations of the API, on a server or on the data directory. */
export function addClientCommands(
  program: Command,
  context: ClientContext,
  local: LocalActions,
): void {
  addSessionCommands(program, context)
  for (const operation of operations) addOperation(program, context, operation, local)
}

/** Finds a command by its first word, or adds it. */
function groupOf(program: Command, word: string): Command {
  const found = program.commands.find((command) => command.name() === word)
  return found ?? program.command(word).description(groups[word] ?? word)
}

/** Adds the options that all commands for servers have. */
function addServerOptions(command: Command): Command {
  return command
    .option('--server <name>', 'a server of svc servers, or local for the data directory')
    .option('--timeout <seconds>', 'time for a response of the server (default: 60)')
    .option('--json', 'print JSON')
}

function addOperation(
  program: Command,
  context: ClientContext,
  operation: ClientOperation,
  local: LocalActions,
): void {
  const [first = '', second] = operation.command.split(' ')
  const parent = second === undefined ? program : groupOf(program, first)
  const command = parent.command(second ?? first).description(operation.summary)
  const names = operation.arguments ?? []
  // All are optional for Commander: it cannot leave out the first one.
  for (const name of names) command.argument(`[${name.replace(/[[\]]/g, '')}]`)
  for (const { flags, description, choices } of operation.options ?? []) {
    const option = new Option(flags, description)
    command.addOption(choices ? option.choices(choices) : option)
  }
  if (operation.confirm) command.option('--yes', 'do not ask for confirmation')
  addServerOptions(command)
  command.usage(['[options]', ...names.map(toUsage)].join(' '))
  const { notes, usageError } = operation
  if (notes !== undefined) command.addHelpText('after', notes)
  if (usageError !== undefined) {
    command.configureOutput({ outputError: (_, write) => write(`error: ${usageError}\n`) })
  }
  command.action(async () => {
    const { runOperation } = await import('./run-operation.ts')
    const invocation = { operation, given: command.args, options: command.opts<OptionValues>() }
    await runOperation(context, invocation, local[operation.command])
  })
}

function toUsage(name: string): string {
  if (name.startsWith('[')) return name
  return name === 'repository' ? '[repository]' : `<${name}>`
}
