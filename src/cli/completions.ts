import type { Command, Option } from 'commander'
import { isRepositoryName } from '#access/names.ts'
import { permissions } from '#access/permissions.ts'
import type { ClientContext } from './servers/connect.ts'
import { connectClient, localName } from './servers/connect.ts'
import { readServerList } from './servers/server-list.ts'
import { UsageError } from './terminal/command-errors.ts'
import { textAt } from './terminal/display.ts'

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

// Bash has cut the words at colons and equals signs, and replaces only what is after the last of these. For bash 3.2, too.
const bash = `# bash completion of svc
_svc() {
  local words=() word part=
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if [[ \${#words[@]} -gt 0 && ( -n $part || $word == [:=]* ) ]]; then
      words[\${#words[@]} - 1]+=$word
    else
      words+=("$word")
    fi
    part=
    [[ $word == *[:=] ]] && part=1
  done
  COMPREPLY=($("\${COMP_WORDS[0]}" completions bash -- "\${words[@]}" 2>/dev/null))
  word=\${words[\${#words[@]} - 1]}
  [[ $word == "\${COMP_WORDS[COMP_CWORD]}" ]] && return
  part=\${word##*[:=]}
  part=\${word%"$part"}
  COMPREPLY=("\${COMPREPLY[@]#"$part"}")
}
complete -o default -F _svc svc
`

const zsh = `#compdef svc
_svc() {
  local -a candidates
  candidates=(\${(f)"$("\${words[1]}" completions zsh -- "\${(@Q)words[2,CURRENT]}" 2>/dev/null)"})
  compadd -- $candidates || _files
}
# A file of fpath is the function itself: it is run at the first completion.
if [[ $funcstack[1] == _svc ]]; then _svc "$@"; else compdef _svc svc; fi
`

const fish = `# fish completion of svc
function __svc_complete
    set -l words (commandline -opc) (commandline -ct)
    set -g __svc_candidates ($words[1] completions fish -- $words[2..-1] 2>/dev/null)
    test (count $__svc_candidates) -gt 0
end
complete -c svc -f -n __svc_complete -a '$__svc_candidates'
`

const scripts = new Map([
  ['bash', bash],
  ['zsh', zsh],
  ['fish', fish],
])

const shells = [...scripts.keys()]

/** A script that lets a shell complete commands, options and their values by this program. */
export function toCompletions(shell: string): string {
  const script = scripts.get(shell)
  if (script !== undefined) return script
  throw new UsageError(`There are completions for bash, zsh and fish, not for "${shell}".`)
}
