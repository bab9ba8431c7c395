/** How a step's script is run: the file's name in the room, and the command, in which `{0}` is the file's path. */
export type Shell = { extension: string; command: [string, ...string[]] }

/** A shell that cannot be used; the message says which can. */
export class ShellError extends Error {
  override readonly name = 'ShellFault'
}

const known: Record<string, Shell> = {
  bash: { extension: '.sh', command: ['bash', '--noprofile', '--norc', '-eo', 'pipefail', '{0}'] },
  sh: { extension: '.sh', command: ['sh', '-e', '{0}'] },
  python: { extension: '.py', command: ['python3', '{0}'] },
}

/** Without `shell`, as GitHub: no pipefail. */
const usual: Shell = { extension: '.sh', command: ['bash', '-e', '{0}'] }

/** The shell of a step by its `shell`. Throws a ShellFault. */
export function shellOf(name: string | undefined): Shell {
  if (name === undefined || name.trim() === '') return usual
  const shell = Object.hasOwn(known, name) ? known[name] : undefined
  if (shell) return shell
  const [program, ...args] = wordsOf(name)
  if (program !== undefined && args.some((word) => word.includes('{0}'))) {
    return { extension: '', command: [program, ...args] }
  }
  throw new ShellError(
    `shell: \`${name}\` is none of bash, sh and python, and has no {0} for the script's path, as in \`perl {0}\`.`,
  )
}

/** The command with the path of the script. */
export function commandOf(shell: Shell, script: string): [string, ...string[]] {
  const [program, ...args] = shell.command
  return [program, ...args.map((word) => word.replaceAll('{0}', script))]
}

function wordsOf(text: string): string[] {
  const words = text.match(/"[^"]*"|'[^']*'|[^\s"']+/g) ?? []
  return words.map((word) => word.replace(/^(["'])(.*)\1$/s, '$2'))
}
