import type { Command } from 'commander'
import { UsageError } from '../commands/usage-error.ts'

type Entry = { words: string; candidates: string[] }

/** A script that completes commands and options. */
export function toCompletions(program: Command, shell: string): string {
  const entries = entriesOf(program, [])
  if (shell === 'bash') return toBash(entries)
  if (shell === 'zsh') return toZsh(entries)
  if (shell === 'fish') return toFish(program)
  throw new UsageError(`There are completions for bash, zsh and fish, not for "${shell}".`)
}

function entriesOf(command: Command, words: string[]): Entry[] {
  const names = command.commands.map((inner) => inner.name())
  const options = command.options.flatMap(({ long }) => (long ? [long] : []))
  const own = { words: words.join(' '), candidates: [...names, ...options, '--help'] }
  return [own, ...command.commands.flatMap((inner) => entriesOf(inner, [...words, inner.name()]))]
}

// The longest known sequence of words before the cursor decides.
function toBash(entries: Entry[]): string {
  return `# bash completion of svc
_svc() {
  local current=\${COMP_WORDS[COMP_CWORD]} words= word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case $word in -*) break ;; esac
    [ -n "$(_svc_candidates "$words\${words:+ }$word")" ] || break
    words="$words\${words:+ }$word"
  done
  COMPREPLY=($(compgen -W "$(_svc_candidates "$words")" -- "$current"))
}
${toCase(entries)}
complete -o default -F _svc svc
`
}

function toZsh(entries: Entry[]): string {
  return `#compdef svc
${toCase(entries)}
_svc() {
  local joined= word
  for word in "\${(@)words[2,CURRENT-1]}"; do
    [[ $word == -* || -z "$(_svc_candidates "$joined\${joined:+ }$word")" ]] && break
    joined="$joined\${joined:+ }$word"
  done
  compadd -- \${=$(_svc_candidates "$joined")} || _files
}
# A file of fpath is the function itself: it is run at the first completion.
if [[ $funcstack[1] == _svc ]]; then _svc "$@"; else compdef _svc svc; fi
`
}

function toCase(entries: Entry[]): string {
  const cases = entries.map(
    ({ words, candidates }) => `    '${words}') echo '${candidates.join(' ')}' ;;`,
  )
  return `_svc_candidates() {\n  case $1 in\n${cases.join('\n')}\n  esac\n}`
}

function toFish(program: Command): string {
  const lines = ['# fish completion of svc', 'complete -c svc -n __fish_use_subcommand -f']
  for (const command of program.commands) {
    const name = command.name()
    lines.push(
      `complete -c svc -n __fish_use_subcommand -a ${name} -d ${quote(command.description())}`,
      ...optionLines(command, `__fish_seen_subcommand_from ${name}`),
    )
    const inner = command.commands.map((one) => one.name())
    for (const one of command.commands) {
      const isFirst = `__fish_seen_subcommand_from ${name}; and not __fish_seen_subcommand_from ${inner.join(' ')}`
      const isInside = `__fish_seen_subcommand_from ${name}; and __fish_seen_subcommand_from ${one.name()}`
      lines.push(
        `complete -c svc -n ${quote(isFirst)} -f -a ${one.name()} -d ${quote(one.description())}`,
        ...optionLines(one, isInside),
      )
    }
  }
  return `${lines.join('\n')}\n`
}

function optionLines(command: Command, condition: string): string[] {
  return command.options.map(({ long = '', description, required }) => {
    const value = required ? ' -r' : ''
    return `complete -c svc -n ${quote(condition)} -l ${long.slice(2)}${value} -d ${quote(description)}`
  })
}

function quote(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}
