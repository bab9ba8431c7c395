/** How a script is run: the extension of its file, and the command, in which `{0}` stands for the path of the file. */
export type Shell = { extension: string; command: [string, ...string[]] }

/** An unsupported shell; the message names the supported ones. */
export class ShellError extends Error {
  override readonly name = 'ShellError'
}

const knownShells: Record<string, Shell> = {
  bash: { extension: '.sh', command: ['bash', '--noprofile', '--norc', '-eo', 'pipefail', '{0}'] },
  sh: { extension: '.sh', command: ['sh', '-e', '{0}'] },
  python: { extension: '.py', command: ['python3', '{0}'] },
}

/** As on GitHub, without pipefail. */
const defaultShell: Shell = { extension: '.sh', command: ['bash', '-e', '{0}'] }

/** Resolves the `shell` of a step. Throws a ShellError. */
export function shellOf(name: string | undefined): Shell {
  if (name === undefined || name.trim() === '') return defaultShell
  const shell = Object.hasOwn(knownShells, name) ? knownShells[name] : undefined
  if (shell) return shell
  const [program, ...args] = wordsOf(name)
  if (program !== undefined && args.some((word) => word.includes('{0}'))) {
    return { extension: '', command: [program, ...args] }
  }
  throw new ShellError(
    `shell: \`${name}\` is not supported; use bash, sh, python, or a command with {0} for the script's path, such as \`perl {0}\`.`,
  )
}

export function commandOf(shell: Shell, script: string): [string, ...string[]] {
  const [program, ...args] = shell.command
  return [program, ...args.map((word) => word.replaceAll('{0}', script))]
}

function wordsOf(text: string): string[] {
  const words = text.match(/"[^"]*"|'[^']*'|[^\s"']+/g) ?? []
  return words.map((word) => word.replace(/^(["'])(.*)\1$/s, '$2'))
}
