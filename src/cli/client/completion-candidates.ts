import type { Command, Option } from 'commander'
import { isRepositoryName } from '#access/names.ts'
import { permissions } from '#access/permissions.ts'
import { localName } from './chosen-server.ts'
import type { ClientContext } from './client-context.ts'
import { shells } from './completions.ts'
import { connectClient } from './connect.ts'
import { textAt } from './display.ts'
import { readServerList } from './server-list.ts'

type Candidate = { word: string; description?: string }
type Values = (context: ClientContext, server: string | undefined) => Promise<readonly string[]>

/** A person waits for it. */
const timeoutSeconds = '3'

/** Values of options that have no fixed choices, by their flags. */
export const optionValues: Record<string, Values> = {
  '--action': async () => (await import('#events/audit/record.ts')).auditActions,
  '--kind': async () => (await import('#events/events.ts')).eventKinds,
  '--permission': async () => permissions,
  '--repository': repositoryNames,
  '--server': async (context) => [...(await serverNames(context)), localName],
}

/** Values of arguments, by the words of the command and the name of the argument, or by the name alone. */
const argumentValues: Record<string, Values> = {
  repository: repositoryNames,
  'clone name': repositoryNames,
  'repos delete name': repositoryNames,
  'repos maintain name': repositoryNames,
  'check action': async () => ['fetch', 'push'],
  'completions shell': async () => shells,
  'logout name': serverNames,
  'servers default name': serverNames,
}

const takesValue = ({ required, optional }: Option) => required || optional

/** The candidates for the last word of a command line. None is an error: a shell shows nothing then. */
export async function candidatesFor(
  program: Command,
  context: ClientContext,
  words: string[],
): Promise<Candidate[]> {
  const current = words.at(-1) ?? ''
  const { command, given, open, server } = readWords(program, words.slice(0, -1))
  const all = await candidatesAt({ command, given, open, server, current }, context).catch(() => [])
  return all.filter(({ word }) => word.startsWith(current))
}

type Place = {
  command: Command
  /** How many arguments are before. */
  given: number
  /** The option before, if the word is its value. */
  open: Option | undefined
  /** The value of `--server`. */
  server: string | undefined
}

function readWords(program: Command, words: string[]): Place {
  const place: Place = { command: program, given: 0, open: undefined, server: undefined }
  for (const word of words) {
    const inner =
      place.given === 0 ? place.command.commands.find((one) => one.name() === word) : undefined
    if (word.startsWith('--server=')) place.server = word.slice('--server='.length)
    if (word.startsWith('-')) {
      const option = place.command.options.find(({ long, short }) => [long, short].includes(word))
      place.open = option && takesValue(option) ? option : undefined
    } else if (place.open) {
      if (place.open.long === '--server') place.server = word
      if (!place.open.variadic) place.open = undefined
    } else if (inner) place.command = inner
    else place.given++
  }
  return place
}

async function candidatesAt(
  { command, given, open, server, current }: Place & { current: string },
  context: ClientContext,
): Promise<Candidate[]> {
  const [start, flag] = /^(--[^=]+)=/.exec(current) ?? []
  if (start !== undefined) {
    const option = command.options.find(({ long }) => long === flag)
    const values = option && takesValue(option) ? await valuesOf(option, context, server) : []
    return values.map((value) => ({ word: start + value }))
  }
  if (current.startsWith('-')) {
    const options = command.options.map(({ long, description }) => ({
      word: long ?? '',
      description,
    }))
    return [...options, { word: '--help', description: 'display help for command' }]
  }
  if (open) return toCandidates(await valuesOf(open, context, server))
  if (given === 0 && command.commands.length > 0)
    return command.commands.map((one) => ({ word: one.name(), description: one.description() }))
  const { registeredArguments: all } = command
  const name = all[given]?.name() ?? ''
  const values = argumentValues[`${wordsOf(command)} ${name}`] ?? argumentValues[name]
  return toCandidates(await values?.(context, server))
}

async function valuesOf(
  { argChoices, long }: Option,
  context: ClientContext,
  server: string | undefined,
): Promise<readonly string[]> {
  return argChoices ?? (await optionValues[long ?? '']?.(context, server)) ?? []
}

function toCandidates(words: readonly string[] = []): Candidate[] {
  return words.map((word) => ({ word }))
}

/** The words of a command, without that of the program. */
function wordsOf(command: Command): string {
  const above = command.parent?.parent ? `${command.parent.name()} ` : ''
  return above + command.name()
}

async function serverNames({ environment }: ClientContext): Promise<string[]> {
  return (await readServerList(environment)).servers.map(({ name }) => name)
}

async function repositoryNames(
  context: ClientContext,
  server: string | undefined,
): Promise<string[]> {
  const { client } = await connectClient(context, { server, timeout: timeoutSeconds })
  const rows = (await client?.list({ method: 'GET', path: '/repos' })) ?? []
  // The shell gets what it can insert as it is.
  return rows.map((row) => textAt(row, 'name')).filter(isRepositoryName)
}
