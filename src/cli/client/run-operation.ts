import { printable } from '#base/format.ts'
import { isGitAddress } from '#base/git-address.ts'
import { toSafeJson } from '#base/safe-text.ts'
import { UsageError } from '../commands/usage-error.ts'
import type { ClientContext, OptionValues } from './client-context.ts'
import { CommandError } from './command-error.ts'
import { connectClient } from './connect.ts'
import { toFields, toFittedTable } from './display.ts'
import { type HttpClient, path } from './http-client.ts'
import { nameArguments } from './name-arguments.ts'
import type { ClientOperation, CommandInput, Show, Work } from './operation.ts'
import { goesOn, limitOf } from './operations/option-values.ts'
import { showResult } from './show-result.ts'

type Invocation = { operation: ClientOperation; given: string[]; options: OptionValues }
type LocalAction = ((names: string[], options: OptionValues) => Promise<void>) | undefined

const defaultLimit = 30

/** Runs a command on the chosen server, or on the data directory. */
export async function runOperation(
  context: ClientContext,
  { operation, given, options }: Invocation,
  runLocally: LocalAction,
): Promise<void> {
  const address = operation.command === 'clone' ? given.find(isGitAddress) : undefined
  const { chosen, git, client } = await connectClient(context, options, address)
  assertOptions(operation, options, chosen === undefined ? 'local' : 'server')
  const named = nameArguments(operation, {
    given,
    hasPathOption: (options.path ?? options.pathBase64) !== undefined,
    inClone: chosen?.repository,
  })
  if (!chosen || !client) {
    if (runLocally) return runLocally(Object.values(named), options)
    throw new UsageError(
      `svc ${operation.command} needs a server: log in with svc login URL, or set SVC_URL and SVC_TOKEN.`,
    )
  }
  const input = toInput(await resolveLatest(client, named), options)
  await confirm(operation, input, { options, terminal: context.terminal })
  const json = options.json === true
  const { terminal, columns, environment, launcher } = context
  const work = { client, input, terminal, git, environment, columns, json, launcher }
  const code = await perform(operation, { ...work, serverName: chosen.name }, options)
  if (code !== 0) context.setExitCode(code)
}

async function perform(
  operation: ClientOperation,
  work: Work,
  options: OptionValues,
): Promise<number> {
  if ('run' in operation) {
    const code = await operation.run(work)
    return typeof code === 'number' ? code : 0
  }
  const { client, input } = work
  const request = operation.request(input)
  const { show } = operation
  if (show.kind !== 'table' || show.isPaged !== true) {
    display(show, await client.json(request), work)
    return 0
  }
  const limit = toLimit(operation, options)
  // One more shows whether the list goes on.
  const rows = await client.list(request, limit + 1)
  display(show, rows.slice(0, limit), work)
  if (rows.length > limit && !work.json) work.terminal.err(`${goesOn(limit)}\n`)
  return 0
}

function display(show: Show, body: Awaited<ReturnType<HttpClient['json']>>, work: Work): void {
  const { terminal, columns, input, json } = work
  if (show.kind === 'sentence') {
    showResult(work, body ?? show.json?.(input) ?? {}, show.text(body, input))
  } else if (json) {
    terminal.out(toSafeJson(body))
  } else if (show.kind === 'fields') {
    terminal.out(toFields(show.columns, body))
  } else {
    const rows = show.rows?.(body) ?? (Array.isArray(body) ? body : [])
    terminal.out(toFittedTable(show.columns, rows, columns))
    const note = show.note?.(body)
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
  { options: rows = [], command }: ClientOperation,
  options: OptionValues,
  target: 'server' | 'local',
): void {
  for (const { flags, only } of rows) {
    const [flag = ''] = flags.split(' ')
    const name = flag.slice(2).replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase())
    if (only === undefined || only === target || options[name] === undefined) continue
    const place = only === 'local' ? 'a data directory; --server local chooses it' : 'a server'
    throw new UsageError(`svc ${command} takes ${flag} only for ${place}.`)
  }
}

/** Replaces `latest` by the id of the newest run or push. */
async function resolveLatest(
  client: HttpClient,
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

function toLimit({ options: rows = [] }: ClientOperation, { limit }: OptionValues): number {
  if (!rows.some(({ flags }) => flags.startsWith('--limit '))) return Number.POSITIVE_INFINITY
  return limitOf(typeof limit === 'string' ? limit : undefined, defaultLimit)
}
