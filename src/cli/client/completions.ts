import { UsageError } from '../commands/usage-error.ts'

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

export const shells = [...scripts.keys()]

/** A script that lets a shell complete commands, options and their values by this program. */
export function toCompletions(shell: string): string {
  const script = scripts.get(shell)
  if (script !== undefined) return script
  throw new UsageError(`There are completions for bash, zsh and fish, not for "${shell}".`)
}
