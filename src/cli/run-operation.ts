import { printable } from '#base/format.ts'
import { isGitAddress } from '#base/git-address.ts'
import type { Json } from '#base/json.ts'
import { toSafeJson } from '#base/safe-text.ts'
import { nameArguments } from './name-arguments.ts'
import type {
  ClientOperation,
  CommandInput,
  RequestFields,
  Shown,
  Work,
} from './operations/operation.ts'
import {
  goesOn,
  isPaged,
  limitOf,
  optionNameOf,
  toRequest,
} from './operations/operation-request.ts'
import type { ClientContext, OptionValues } from './servers/connect.ts'
import { connectClient } from './servers/connect.ts'
import { type ApiClient, path } from './servers/http-client.ts'
import { CommandError, UsageError } from './terminal/command-errors.ts'
import { showResult, toFields, toFittedTable } from './terminal/display.ts'

type Invocation = { operation: ClientOperation; given: string[]; options: OptionValues }

const defaultLimit = 30

/** Runs a command on the chosen server, or on the data directory. */
export async function runOperation(
  context: ClientContext,
  { operation, given, options }: Invocation,
): Promise<void> {
  const address = operation.command === 'clone' ? given.find(isGitAddress) : undefined
  const { chosen, git, client } = await connectClient(context, options, address)
  assertOptions(operation, options, chosen === undefined ? 'local' : 'server')
  const [first, ...others] = operation.arguments ?? []
  const isOfNamespace = first === 'repository' && typeof options.namespace === 'string'
  const named = {
    // In the place of the repository, also in paths of the API.
    ...(isOfNamespace && { repository: String(options.namespace) }),
    ...nameArguments(isOfNamespace ? { ...operation, arguments: others } : operation, {
      given,
      hasPathOption: (options.path ?? options.pathBase64) !== undefined,
      inClone: chosen?.repository,
    }),
  }
  const { terminal, columns, environment, launcher } = context
  const json = options.json === true
  const toWork = <Client extends ApiClient>(client: Client, input: CommandInput) => ({
    ...{ terminal, git, environment, columns, json, launcher },
    client,
    input,
    request: (fields?: RequestFields, operationId?: string) =>
      toRequest(operation, input, { operationId, fields }),
    serverName: chosen?.name,
  })
  if (client) {
    const input = toInput(await resolveLatest(client, named), options)
    await confirm(operation, input, { options, terminal })
    const work = toWork(client, input)
    const isForServer = 'runOnServer' in operation
    const code = isForServer ? await operation.runOnServer(work) : await perform(operation, work)
    if (typeof code === 'number' && code !== 0) context.setExitCode(code)
    return
  }
  if (!operation.isLocal || 'runOnServer' in operation) {
    throw new UsageError(
      `svc ${operation.command} needs a server: log in with svc login URL, or set SVC_URL and SVC_TOKEN.`,
    )
  }
  const input = toInput(named, options)
  await context.withApp(async (app) => {
    const { createLocalClient } = await import('./local/local-client.ts')
    const { localRuns } = await import('./local/local-runs.ts')
    const local = createLocalClient(app, input)
    const work = toWork(local, input)
    const run = localRuns[operation.command]
    const code = await (run ? run({ ...work, app }) : perform(operation, work))
    if (typeof code === 'number' && code !== 0) context.setExitCode(code)
  })
}

async function perform(
  operation: Exclude<ClientOperation, { runOnServer: unknown }>,
  work: Work,
): Promise<unknown> {
  if ('run' in operation) return operation.run(work)
  const { client, request, input } = work
  if (!('table' in operation) || !isPaged(operation))
    return display(operation, await client.json(request()), work)
  const limit = toLimit(operation, input)
  // One more shows whether the list goes on.
  const rows = await client.list(request(), limit + 1)
  display(operation, rows.slice(0, limit), work)
  if (rows.length > limit && !work.json) work.terminal.err(`${goesOn(limit)}\n`)
}

function display(shown: Shown, body: Json, work: Work): void {
  const { terminal, columns, input, json } = work
  if ('sentence' in shown) {
    showResult(work, body ?? shown.json?.(input) ?? {}, shown.sentence(body, input))
  } else if (json) {
    terminal.out(toSafeJson(body))
  } else if ('fields' in shown) {
    terminal.out(toFields(shown.fields, body))
  } else {
    const rows = shown.rows?.(body) ?? (Array.isArray(body) ? body : [])
    terminal.out(toFittedTable(shown.table, rows, columns))
    const note = shown.note?.(body)
    if (note !== undefined) terminal.err(`${printable(note)}\n`)
  }
}

function toInput(values: Record<string, string>, options: OptionValues): CommandInput {
  return {
    argument: (name) => values[name] ?? '',
    option: (name) => {
      const value = options[name]
      return typeof value === 'string' ? value : undefined
    },
    list: (name) => {
      const value = options[name]
      return Array.isArray(value) ? value : undefined
    },
    flag: (name) => (typeof options[name] === 'boolean' ? options[name] : undefined),
  }
}

function assertOptions(
  { options: rows = {}, command }: ClientOperation,
  options: OptionValues,
  target: 'server' | 'local',
): void {
  for (const [flags, row] of Object.entries(rows)) {
    const [flag = ''] = flags.split(' ')
    const { only = target } = typeof row === 'string' ? {} : row
    if (only === target || options[optionNameOf(flags)] === undefined) continue
    const place = only === 'local' ? 'a data directory; --server local chooses it' : 'a server'
    throw new UsageError(`svc ${command} takes ${flag} only for ${place}.`)
  }
}

/** Replaces `latest` by the id of the newest run or push. */
async function resolveLatest(
  client: ApiClient,
  values: Record<string, string>,
): Promise<Record<string, string>> {
  const resolved = { ...values }
  for (const [name, list] of Object.entries({ run: 'workflows', push: 'pushes' })) {
    const value = values[name]
    if (value === undefined || (value !== '' && value !== 'latest')) continue
    const request = { method: 'GET', path: path`/repos/${values.repository ?? ''}/${list}` }
    const [newest] = await client.list(request, 1)
    const id =
      newest !== null && typeof newest === 'object' && 'id' in newest ? newest.id : undefined
    if (typeof id !== 'string') {
      throw new CommandError('failure', `${values.repository} has no ${name} yet.`)
    }
    resolved[name] = id
  }
  return resolved
}

async function confirm(
  { confirm: toQuestion, command }: ClientOperation,
  input: CommandInput,
  { options, terminal }: { options: OptionValues; terminal: ClientContext['terminal'] },
): Promise<void> {
  if (!toQuestion || options.yes === true) return
  const { question, expected } = toQuestion(input)
  if (!terminal.ask) {
    throw new UsageError(
      `svc ${command} cannot be undone, and there is no terminal to ask; --yes confirms it.`,
    )
  }
  if ((await terminal.ask(question)).trim() !== expected) {
    throw new CommandError('failure', 'Nothing was changed.')
  }
}

function toLimit({ options = {} }: ClientOperation, { option }: CommandInput): number {
  if (!('--limit <number>' in options)) return Number.POSITIVE_INFINITY
  return limitOf(option('limit'), defaultLimit)
}
