import { type Command, Option } from 'commander'
import { operations } from './operations/client-operations.ts'
import type { ClientOperation } from './operations/operation.ts'
import { argumentsOf, choicesOf } from './operations/operation-request.ts'
import type { ClientContext, OptionValues } from './servers/connect.ts'
import { addSessionCommands } from './session-commands.ts'

const groups: Record<string, string> = {
  repos: 'manage repositories',
  'deleted-repos': 'restore deleted repositories',
  namespaces: 'manage namespaces, which repositories such as acme/site are in',
  members: 'manage the members of a namespace',
  collaborators: 'manage collaborators of a repository',
  protections: 'protect branches and tags of a repository or a namespace',
  users: 'manage users',
  tokens: 'manage API tokens',
  keys: 'manage SSH keys',
  'trust-rules': 'let jobs elsewhere get tokens',
  changes: 'propose, review and land changes',
  statuses: 'report statuses of commits, and list them',
  secrets: 'manage secrets of repositories and namespaces',
  runs: 'start, watch and repeat workflow runs',
  artifacts: 'list and download artifacts of workflow runs',
  caches: 'list and delete caches of workflow runs',
  pushes: 'list pushes, and undo them',
  browse: 'read files and history without a clone',
  refs: 'create, move and delete branches and tags',
  webhooks: 'manage webhooks of a repository or a namespace',
  deliveries: 'inspect and repeat deliveries of webhooks',
}

/** Adds the commands for the operations of the API, on a server or on the data directory. */
export function addClientCommands(program: Command, context: ClientContext): void {
  addSessionCommands(program, context)
  for (const operation of operations) addOperation(program, context, operation)
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

function addOperation(program: Command, context: ClientContext, operation: ClientOperation): void {
  const words = operation.command.split(' ')
  const name = words.pop() ?? ''
  const command = words.reduce(groupOf, program).command(name).description(operation.summary)
  const names = operation.arguments ?? []
  // All are optional for Commander: it cannot leave out the first one.
  for (const name of argumentsOf(operation)) command.argument(`[${name}]`)
  for (const [flags, row] of Object.entries(operation.options ?? {})) {
    const { description, choices = choicesOf(operation, flags) } =
      typeof row === 'string' ? { description: row } : row
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
    const options = command.opts<OptionValues>()
    await runOperation(context, { operation, given: command.args, options })
  })
}

function toUsage(name: string): string {
  if (name.startsWith('[')) return name
  return name === 'repository' ? '[repository]' : `<${name}>`
}
